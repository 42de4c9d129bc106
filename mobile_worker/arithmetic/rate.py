"""How fast a kernel is: multiply-adds a second on a fixed expert.

A measurement, never a result: it decides which kernel is used and what a worker offers,
and no byte of any answer depends on it. Of several short runs the best counts, and of a
run the median call: other work on a shared machine can only slow a call down.
"""

import statistics
import time
from collections.abc import Callable
from typing import Final

from mobile_worker.arithmetic.activation import Activation
from mobile_worker.arithmetic.activation_kind import ActivationKind
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows

__all__ = ["fixed_expert", "measure_rate", "rate_of"]

_N_EMBD: Final = 2048
_N_FF: Final = 512
_N_FIXED_ROWS: Final = 64  # which a matrix repeats: what they hold takes no time


def fixed_expert(block_format: Format = Format.Q4_0) -> ExpertWeights:
    """Return the expert that rates are measured on: 2048 wide, 512 within."""
    return ExpertWeights(
        gate=_matrix(block_format, _N_FF, _N_EMBD),
        up=_matrix(block_format, _N_FF, _N_EMBD),
        down=_matrix(block_format, _N_EMBD, _N_FF),
        activation=Activation(kind=ActivationKind.SWIGLU),
    )


def _matrix(block_format: Format, n_rows: int, n_cols: int) -> Matrix:
    few = fixed_matrix("p2pmoe rate", block_format, _N_FIXED_ROWS, n_cols)
    return Matrix(
        format=block_format,
        n_rows=n_rows,
        n_cols=n_cols,
        raw=memoryview(bytes(few.raw) * (n_rows // _N_FIXED_ROWS)),
    )


def rate_of(
    kernel: Kernel,
    expert: ExpertWeights,
    n_rows: int,
    *,
    within_s: float,
    n_runs: int = 3,
    perf_counter: Callable[[], float] = time.perf_counter,
) -> int:
    """Return multiply-adds a second of an expert with `n_rows` rows at a time.

    Calls for `within_s` seconds, in runs of at least one call, after a first call in
    which a kernel may unpack the weights as it does with a resident expert.
    """
    floats = fixed_rows("p2pmoe rate rows", n_rows, expert.gate.n_cols)
    rows = ExpertInput(coded=quantize_rows(floats), floats=floats)

    def call() -> None:
        kernel.expert(expert, rows, Profile.R16)

    call()
    run_s = within_s / n_runs
    best = min(_median_s(call, run_s, perf_counter) for _ in range(n_runs))
    n_macs = 3 * expert.gate.n_rows * expert.gate.n_cols * n_rows
    return int(n_macs / max(best, 1e-9))


def _median_s(
    call: Callable[[], None], within_s: float, perf_counter: Callable[[], float]
) -> float:
    """Return the median seconds of calls that begin `within_s`, one at least."""
    seconds: list[float] = []
    started = perf_counter()
    ends_at = started + within_s
    while not seconds or started < ends_at:
        call()
        now = perf_counter()
        seconds.append(now - started)
        started = now
    return statistics.median(seconds)


def measure_rate(kernel: Kernel, *, within_s: float = 0.1) -> int:
    """Return the rate with one row of a Q4_0 expert, as decoding has it."""
    return rate_of(kernel, fixed_expert(), 1, within_s=within_s)
