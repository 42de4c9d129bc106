"""What a row costs a worker when 1, 4 or 16 streams ask for experts of one layer.

Each stream asks for one row of its own at four experts of 32, drawn evenly; all their
dispatches wait when the worker turns to them, as they do when lanes or backbones share
it. Beside it, the same dispatches one after another. Both give the same bytes, or it
fails. Experts much smaller than these are not merged (MERGED_MACS). One thread, by its
processor time; the best kernel of this machine.
"""

import time
from random import Random

import numpy as np

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.select import choose_kernel
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from mobile_worker.messages.serving import CodedTensor, Dispatch, ExpertCall
from mobile_worker.serve.merging import Asked, compute_together
from tests.benchmarks.figures import Figure, figure

__all__ = ["merging_figures"]

_N_EXPERT, _TOP_K = 32, 4
_STREAMS = (1, 4, 16)
_SIZES = {"1024 x 512": (1024, 512), "2048 x 768": (2048, 768)}
_ROUNDS, _WITHIN_S = 9, 0.05


def _weights(n_embd: int, n_ff: int) -> list[ExpertWeights]:
    activation = Activation(kind=ActivationKind.SWIGLU)
    return [
        ExpertWeights(
            gate=fixed_matrix(f"gate {i}", Format.Q4_0, n_ff, n_embd),
            up=fixed_matrix(f"up {i}", Format.Q4_0, n_ff, n_embd),
            down=fixed_matrix(f"down {i}", Format.Q4_0, n_embd, n_ff),
            activation=activation,
        )
        for i in range(_N_EXPERT)
    ]


def _asked(kernel: Kernel, weights: list[ExpertWeights], stream: int) -> Asked:
    n_embd = weights[0].gate.n_cols
    coded = kernel.code_rows(fixed_rows(f"row {stream}", 1, n_embd))
    chosen = sorted(Random(stream).sample(range(_N_EXPERT), _TOP_K))
    dispatch = Dispatch(
        request=stream,
        tab=bytes(8),
        first_serving=0,
        layer=1,
        deadline_ms=1000,
        price_epoch=1,
        nonce=bytes(8),
        profile=1,
        n_embd=n_embd,
        coded=CodedTensor(
            codes=coded.codes.tobytes(),
            scales=coded.scales.astype(np.dtype("<f4")).tobytes(),
        ),
        floats=None,
        n_rows=1,
        calls=tuple(ExpertCall(index=e, rows=(0,)) for e in chosen),
    )
    return Asked(dispatch, [weights[e] for e in chosen])


def _row_us(kernel: Kernel, groups: list[list[Asked]]) -> float:
    """Return microseconds a row and expert."""
    n_done, start = 0, time.thread_time()
    while time.thread_time() - start < _WITHIN_S:
        for group in groups:
            compute_together(kernel, group)
        n_done += sum(len(group) for group in groups) * _TOP_K
    return 1e6 * (time.thread_time() - start) / n_done


def merging_figures() -> list[Figure]:
    """Measure, in turns; some ten seconds."""
    kernel = choose_kernel(kernel_candidates()).open(0)
    found = []
    for word, (n_embd, n_ff) in _SIZES.items():
        weights = _weights(n_embd, n_ff)
        for n in _STREAMS:
            asked = [_asked(kernel, weights, stream) for stream in range(n)]
            apart = [[each] for each in asked]
            _check(kernel, asked)
            rounds = [
                (_row_us(kernel, [asked]), _row_us(kernel, apart))
                for _ in range(_ROUNDS)
            ]
            found.append(
                figure(
                    f"a worker's row, {word}, {n} streams, {kernel.name}",
                    "ms",
                    [together / 1000 for together, _ in rounds],
                    baseline=[alone / 1000 for _, alone in rounds],
                )
            )
    return found


def _check(kernel: Kernel, asked: list[Asked]) -> None:
    together = compute_together(kernel, asked)
    for own, each in zip(together, asked, strict=True):
        (alone,) = compute_together(kernel, [each])
        if (own.results, own.hashes) != (alone.results, alone.hashes):
            raise RuntimeError("rows that are computed together differ")
