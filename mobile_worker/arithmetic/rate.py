"""How fast a kernel is: multiply-adds a second on a fixed expert.

A measurement, never a result: it decides which kernel is used and what a worker offers,
and no byte of any answer depends on it. The median of the calls counts, so that a
moment's load on a shared machine weighs little.
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
_MIN_CALLS: Final = 3


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
    perf_counter: Callable[[], float] = time.perf_counter,
) -> int:
    """Return multiply-adds a second of an expert with `n_rows` rows at a time.

    Calls for `within_s` seconds, at least three times after a first one, in which a
    kernel may unpack the weights as it does with a resident expert.
    """
    floats = fixed_rows("p2pmoe rate rows", n_rows, expert.gate.n_cols)
    rows = ExpertInput(coded=quantize_rows(floats), floats=floats)
    kernel.expert(expert, rows, Profile.R16)
    seconds: list[float] = []
    ends_at = perf_counter() + within_s
    started = perf_counter()
    while started < ends_at or len(seconds) < _MIN_CALLS:
        kernel.expert(expert, rows, Profile.R16)
        now = perf_counter()
        seconds.append(now - started)
        started = now
    n_macs = 3 * expert.gate.n_rows * expert.gate.n_cols * n_rows
    return int(n_macs / max(statistics.median(seconds), 1e-9))


def measure_rate(kernel: Kernel, *, within_s: float = 0.1) -> int:
    """Return the rate with one row of a Q4_0 expert, as decoding has it."""
    return rate_of(kernel, fixed_expert(), 1, within_s=within_s)
