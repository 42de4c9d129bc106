"""Dispatches that wait together through the kernel at one go, each with its own answer.

Rows that several dispatches have for one expert (of lanes, streams, backbones) are one
matrix for the kernel, which then reads the expert's weights once for all of them. A row
comes out the same alone or in any batch (mobile_worker.arithmetic.kernel), so results,
hashes and accounts are those of each dispatch by itself. Where the rows of one are
refused, or a value is not finite, each is computed by itself: nobody is charged with,
or told of, what another sent. Runs in a worker thread, like `compute`.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import CodedRows, ExpertInput, Floats
from mobile_worker.arithmetic.errors import ArithmeticRefused
from mobile_worker.arithmetic.kernel import Kernel, KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.profiles import Profile, result_row_bytes
from mobile_worker.messages.serving import Dispatch
from mobile_worker.serve.compute import Computed, compute, input_of
from mobile_worker.servings.hashes import out_hash, x_hash
from mobile_worker.servings.tab import CallHashes

__all__ = ["Asked", "compute_together", "may_merge"]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A dispatch, and the weights of its calls, in order."""

    dispatch: Dispatch
    weights: Sequence[ExpertWeights]


def may_merge(one: Asked, other: Asked) -> bool:
    """Tell whether two dispatches ask for one expert in one way, and so gain by it."""
    mine, theirs = one.dispatch, other.dispatch
    return (
        mine.profile == theirs.profile
        and mine.n_embd == theirs.n_embd
        and (mine.coded is None) == (theirs.coded is None)
        and (mine.floats is None) == (theirs.floats is None)
        and not {id(own) for own in one.weights}.isdisjoint(map(id, other.weights))
    )


def compute_together(kernel: Kernel, asked: Sequence[Asked]) -> list[Computed]:
    """Compute dispatches of one profile, width and kind of rows; never raises.

    Each outcome is what `compute` gives for that dispatch; its time is a share of the
    whole, by rows.
    """
    if len(asked) > 1:
        started = time.perf_counter_ns()
        try:
            merged = _Merged.of(asked)
            results = merged.compute(kernel)
        except ArithmeticRefused:
            pass  # found out below whose it is
        else:
            return merged.outcomes(results, started)
    return [compute(kernel, each.dispatch, each.weights) for each in asked]


@dataclass(slots=True, eq=False)
class _Expert:
    """The rows that go through one expert, of all dispatches."""

    weights: ExpertWeights
    rows: list[npt.NDArray[np.int64]] = field(default_factory=list)
    n: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """Where a call's rows are in its expert's results, and which rows it sent."""

    expert: int  # id of its weights
    first: int
    n: int
    sent: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Merged:
    """Dispatches as one input and one call for each expert."""

    asked: Sequence[Asked]
    inputs: Sequence[ExpertInput]
    experts: Mapping[int, _Expert]
    calls: Sequence[Sequence[_Call]]  # by dispatch

    @classmethod
    def of(cls, asked: Sequence[Asked]) -> "_Merged":
        """Lay all rows one behind another; CodeRefused, NonFinite."""
        experts: dict[int, _Expert] = {}
        inputs, calls, before = [], [], 0
        for each in asked:
            inputs.append(input_of(each.dispatch))
            own = []
            for call, weights in zip(each.dispatch.calls, each.weights, strict=True):
                sent = np.array(call.rows, np.int64)
                expert = experts.setdefault(id(weights), _Expert(weights))
                own.append(_Call(id(weights), expert.n, len(sent), sent))
                expert.rows.append(sent + before)
                expert.n += len(sent)
            calls.append(own)
            before += each.dispatch.n_rows
        return cls(asked, inputs, experts, calls)

    def compute(self, kernel: Kernel) -> dict[int, memoryview]:
        """Return the coded results of each expert; raises as `Kernel.experts`."""
        jobs = [
            KernelCall(weights=each.weights, rows=np.concatenate(each.rows))
            for each in self.experts.values()
        ]
        profile = Profile(self.asked[0].dispatch.profile)
        results = kernel.experts(jobs, _joined(self.inputs), profile)
        return {
            expert: memoryview(coded)
            for expert, coded in zip(self.experts, results, strict=True)
        }

    def outcomes(
        self, results: Mapping[int, memoryview], started: int
    ) -> list[Computed]:
        """Return what each dispatch gets of the results."""
        first = self.asked[0].dispatch
        width = result_row_bytes(Profile(first.profile), first.n_embd)
        parts: list[list[bytes]] = [
            [
                bytes(results[c.expert][c.first * width : (c.first + c.n) * width])
                for c in own
            ]
            for own in self.calls
        ]
        hashes = [
            tuple(
                CallHashes(x=x_hash(rows.take(call.sent)), out=out_hash(coded))
                for call, coded in zip(own, coded_calls, strict=True)
            )
            for rows, own, coded_calls in zip(
                self.inputs, self.calls, parts, strict=True
            )
        ]
        n_rows = [sum(call.n for call in own) for own in self.calls]
        spent_us = (time.perf_counter_ns() - started) // 1000
        return [
            Computed(
                results=b"".join(coded_calls),
                n_rows=n,
                hashes=own,
                compute_us=spent_us * n // max(1, sum(n_rows)),
            )
            for coded_calls, n, own in zip(parts, n_rows, hashes, strict=True)
        ]


def _joined(inputs: Sequence[ExpertInput]) -> ExpertInput:
    """Return the rows of all inputs, which are of one kind."""
    coded: CodedRows | None = None
    floats: Floats | None = None
    if inputs[0].coded is not None:
        own = [each.coded for each in inputs if each.coded is not None]
        coded = CodedRows(
            codes=np.concatenate([each.codes for each in own]),
            scales=np.concatenate([each.scales for each in own]),
        )
    if inputs[0].floats is not None:
        floats = np.concatenate([e.floats for e in inputs if e.floats is not None])
    return ExpertInput(coded=coded, floats=floats)
