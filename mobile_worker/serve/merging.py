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
from mobile_worker.serve.compute import Computed, call_hashes, compute, input_of

__all__ = ["Asked", "compute_together", "may_merge"]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A dispatch, and the weights of its calls, in order."""

    dispatch: Dispatch
    weights: Sequence[ExpertWeights]


def may_merge(group: Sequence[Asked], other: Asked) -> bool:
    """Tell whether a dispatch gains by others: of one kind, and sharing experts.

    A quarter of its calls at least must be for experts that the group computes.
    """
    mine, theirs = group[0].dispatch, other.dispatch
    held = {id(own) for each in group for own in each.weights}
    n_shared = sum(id(own) in held for own in other.weights)
    return (
        mine.profile == theirs.profile
        and mine.n_embd == theirs.n_embd
        and (mine.coded is None) == (theirs.coded is None)
        and (mine.floats is None) == (theirs.floats is None)
        and 4 * n_shared >= len(other.weights)
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
    rows: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One dispatch: its rows, and where each call's are in its expert's results."""

    rows: ExpertInput
    picked: list[npt.NDArray[np.int64] | None]  # by call; None: all rows
    places: list[tuple[int, int, int]]  # id of the weights, first row, end

    @property
    def n_rows(self) -> int:
        return sum(end - first for _, first, end in self.places)


@dataclass(frozen=True, slots=True, eq=False)
class _Merged:
    """Dispatches as one input and one call for each expert."""

    profile: Profile
    n_embd: int
    parts: Sequence[_Part]
    experts: Mapping[int, _Expert]

    @classmethod
    def of(cls, asked: Sequence[Asked]) -> "_Merged":
        """Lay all rows one behind another; CodeRefused, NonFinite."""
        experts: dict[int, _Expert] = {}
        parts, before = [], 0
        for each in asked:
            dispatch = each.dispatch
            part = _Part(input_of(dispatch), [], [])
            for call, weights in zip(dispatch.calls, each.weights, strict=True):
                expert = experts.setdefault(id(weights), _Expert(weights))
                first, n = len(expert.rows), len(call.rows)
                expert.rows.extend(before + row for row in call.rows)
                is_whole = n == dispatch.n_rows
                part.picked.append(None if is_whole else np.array(call.rows, np.int64))
                part.places.append((id(weights), first, first + n))
            parts.append(part)
            before += dispatch.n_rows
        first_of_all = asked[0].dispatch
        profile = Profile(first_of_all.profile)
        return cls(profile, first_of_all.n_embd, parts, experts)

    def compute(self, kernel: Kernel) -> dict[int, bytes]:
        """Return the coded results of each expert; raises as `Kernel.experts`."""
        jobs = [
            KernelCall(weights=each.weights, rows=np.array(each.rows, np.int64))
            for each in self.experts.values()
        ]
        rows = _joined([part.rows for part in self.parts])
        results = kernel.experts(jobs, rows, self.profile)
        return dict(zip(self.experts, results, strict=True))

    def outcomes(self, results: Mapping[int, bytes], started: int) -> list[Computed]:
        """Return what each dispatch gets of the results."""
        width = result_row_bytes(self.profile, self.n_embd)
        found = []
        for part in self.parts:
            own = [
                results[expert][first * width : end * width]
                for expert, first, end in part.places
            ]
            found.append((own, call_hashes(part.rows, part.picked, own)))
        n_all = sum(part.n_rows for part in self.parts)
        spent_us = (time.perf_counter_ns() - started) // 1000
        return [
            Computed(
                results=b"".join(own),
                n_rows=part.n_rows,
                hashes=hashes,
                compute_us=spent_us * part.n_rows // max(1, n_all),
            )
            for part, (own, hashes) in zip(self.parts, found, strict=True)
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
