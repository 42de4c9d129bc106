"""Rates of kernels alone: products of one format, and experts of a large model.

`product_figures` says what a kernel computes with a matrix that stays in the cache;
`ExpertRotation` what it computes when every call is another expert, together larger
than the cache, as a worker or a decoding backbone has it.
"""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable, Sequence

from mobile_worker.arithmetic.activation import Activation
from mobile_worker.arithmetic.activation_kind import ActivationKind
from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import FORMATS, fixed_matrix, fixed_rows
from tests.benchmarks.figures import Figure, figure

__all__ = ["ExpertRotation", "open_kernel", "product_figures", "rates"]

N_EMBD, N_FF = 2048, 768  # the synthetic model's experts
CACHE_BYTES = 96 << 20  # no core here has so much to itself
ROUNDS = 5
ROUND_S = 0.05


def open_kernel(family: str, decoded_bytes: int = 1 << 30) -> Kernel | None:
    """Return the best kernel whose name starts with `family`, None without one."""
    for candidate in kernel_candidates():
        if candidate.name.startswith(family):
            try:
                return candidate.open(decoded_bytes)
            except KernelUnavailable:
                continue
    return None


def rates(work: float, call: Callable[[], object]) -> list[float]:
    """Return `work` per second of several rounds of calls, after an uncounted one."""
    call()
    found = []
    for _ in range(ROUNDS):
        n, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < ROUND_S:
            call()
            n += 1
        found.append(n * work / elapsed)
    return found


def _coded(kernel: Kernel, n: int, n_cols: int) -> ExpertInput:
    floats = fixed_rows("bench rows", n, n_cols)
    return ExpertInput(coded=kernel.code_rows(floats), floats=floats)


def product_figures(kernels: Sequence[Kernel], n: int) -> list[Figure]:
    """Return G multiply-adds/s of every format, the last kernel being the baseline."""
    found = []
    for block_format in FORMATS:
        matrix = fixed_matrix("bench", block_format, N_FF, N_EMBD)
        measured = [_product_rates(kernel, matrix, n) for kernel in kernels]
        for kernel, ours in zip(kernels, measured, strict=True):
            name = f"{block_format.name}, {n} row{'s' * (n > 1)}, {kernel.name}"
            found.append(figure(name, "G MAC/s", ours, baseline=measured[-1]))
    return found


def _product_rates(kernel: Kernel, matrix: Matrix, n: int) -> list[float]:
    rows = _input(kernel, n)
    work = n * matrix.n_rows * matrix.n_cols / 1e9
    return rates(work, lambda: kernel.matmul(matrix, rows))


def _input(kernel: Kernel, n: int) -> ExpertInput:
    floats = fixed_rows("bench rows", n, N_EMBD)
    return ExpertInput(coded=kernel.code_rows(floats), floats=floats)


class ExpertRotation:
    """Experts of one format that together are larger than the cache, called in turn."""

    def __init__(self, kernel: Kernel, block_format: Format) -> None:
        """Make the experts: the same bytes at different places in memory."""
        self._kernel = kernel
        gate, up = (
            fixed_matrix(f"bench {w}", block_format, N_FF, N_EMBD) for w in "gu"
        )
        down = fixed_matrix("bench d", block_format, N_EMBD, N_FF)
        n_bytes = sum(matrix.raw.nbytes for matrix in (gate, up, down))
        experts = [
            ExpertWeights(
                gate=_copy(gate),
                up=_copy(up),
                down=_copy(down),
                activation=Activation(kind=ActivationKind.SWIGLU),
            )
            for _ in range(-(-CACHE_BYTES // n_bytes))
        ]
        self._n = len(experts)
        self._turns = itertools.cycle(experts)
        for _ in range(
            self._n
        ):  # what a kernel keeps of resident experts, it keeps now
            self.call(_input(kernel, 1))

    def call(self, rows: ExpertInput) -> bytes:
        """Call the next expert."""
        return self._kernel.expert(next(self._turns), rows, Profile.R16)

    def rates(self, n: int) -> list[float]:
        """Return G multiply-adds/s with `n` rows a call."""
        rows = _input(self._kernel, n)
        return rates(n * 3 * N_FF * N_EMBD / 1e9, lambda: self.call(rows))

    def cost_figure(self, n: int, at_most: float) -> Figure:
        """Return what a call of `n` rows costs in calls of one row."""
        one = statistics.median(self.rates(1))
        costs = [n * one / many for many in self.rates(n)]
        name = f"an expert's call of {n} rows, {self._kernel.name}"
        return figure(name, "calls of one", costs, at_most=at_most)


def _copy(matrix: Matrix) -> Matrix:
    raw = memoryview(bytearray(matrix.raw)).toreadonly()
    return dataclasses.replace(matrix, raw=raw)
