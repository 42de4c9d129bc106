"""Rates of kernels alone: products of one format, and experts of a large model.

`product_figures` says what a kernel computes with a matrix that stays in the cache;
`ExpertRotation` what it computes when every call is another expert, together larger
than the cache, as a worker or a decoding backbone has it.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from mobile_worker.arithmetic.activation import Activation
from mobile_worker.arithmetic.activation_kind import ActivationKind
from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import FORMATS, fixed_matrix, fixed_rows
from mobile_worker.large_pages import weight_room
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.rounds import Stopwatch, Timed, measured_rounds

__all__ = ["ExpertRotation", "bench_input", "open_kernels", "product_figures"]

N_EMBD, N_FF = 2048, 768  # the synthetic model's experts
CACHE_BYTES = 96 << 20  # no core here has so much to itself
ROUNDS = 5
ROUND_S = 0.05


def open_kernels(decoded_bytes: int = 1 << 30) -> dict[str, Kernel]:
    """Return the kernels that this machine has by name, best first."""
    found = {}
    for candidate in kernel_candidates():
        with suppress(KernelUnavailable):
            found[candidate.name] = candidate.open(decoded_bytes)
    return found


def _timed(work: float, call: Callable[[], object]) -> Timed:
    """Return `work` per second of calls for a while."""
    watch = Stopwatch()
    n = 0
    while watch.seconds() < ROUND_S:
        call()
        n += 1
    return watch.timed(n * work)


def product_figures(kernels: Sequence[Kernel], n: int) -> list[Figure]:
    """Return G multiply-adds/s of every format, beside numpy with unpacked weights."""
    found = []
    numpy = NumpyKernel()
    for block_format in FORMATS:
        matrix = fixed_matrix("bench", block_format, N_FF, N_EMBD)
        beside = _product_rates(numpy, matrix, n)
        for kernel in kernels:
            ours = _product_rates(kernel, matrix, n)
            name = f"{block_format.name}, {n} row{'s' * (n > 1)}, {kernel.name}"
            found.append(figure(name, "G MAC/s", ours, baseline=beside))
    return found


def _product_rates(kernel: Kernel, matrix: Matrix, n: int) -> list[float]:
    rows = bench_input(kernel, n)
    work = n * matrix.n_rows * matrix.n_cols / 1e9
    kernel.matmul(matrix, rows)  # what it unpacks or copies, it does now
    return measured_rounds(
        [lambda: _timed(work, lambda: kernel.matmul(matrix, rows))], ROUNDS
    )[0]


def bench_input(kernel: Kernel, n: int, n_embd: int = N_EMBD) -> ExpertInput:
    """Return `n` rows as a kernel takes them, coded and as floats."""
    floats = fixed_rows("bench rows", n, n_embd)
    return ExpertInput(coded=kernel.code_rows(floats), floats=floats)


class ExpertRotation:
    """Experts of one format that together are larger than the cache, called in turn."""

    def __init__(
        self,
        kernel: Kernel,
        block_format: Format,
        n_ff: int = N_FF,
        n_embd: int = N_EMBD,
    ) -> None:
        """Make the experts: the same bytes at different places in memory."""
        self._kernel = kernel
        gate, up = (
            fixed_matrix(f"bench {w}", block_format, n_ff, n_embd) for w in "gu"
        )
        down = fixed_matrix("bench d", block_format, n_embd, n_ff)
        n_bytes = sum(matrix.raw.nbytes for matrix in (gate, up, down))
        n_experts = -(-CACHE_BYTES // n_bytes)
        experts = [_expert(gate, up, down) for _ in range(n_experts)]
        self._n = len(experts)
        self._turns = itertools.cycle(experts)
        for _ in range(
            self._n
        ):  # what a kernel keeps of resident experts, it keeps now
            self.call(bench_input(kernel, 1, n_embd))

    def call(self, rows: ExpertInput) -> bytes:
        """Call the next expert."""
        return self._kernel.expert(next(self._turns), rows, Profile.R16)

    def rate(self, n: int) -> Timed:
        """Return G multiply-adds/s of calls with `n` rows for a while."""
        rows = bench_input(self._kernel, n)
        return _timed(n * 3 * N_FF * N_EMBD / 1e9, lambda: self.call(rows))

    def cost_figure(self, n: int, at_most: float) -> Figure:
        """Return what a call of `n` rows costs in calls of one row."""
        one, many = measured_rounds(
            [partial(self.rate, 1), partial(self.rate, n)], ROUNDS
        )
        costs = [n * alone / each for alone, each in zip(one, many, strict=True)]
        name = f"an expert's call of {n} rows, {self._kernel.name}"
        return figure(name, "calls of one", costs, at_most=at_most)


def _expert(*matrices: Matrix) -> ExpertWeights:
    """Lay gate, up and down out in memory as a worker does: side by side."""
    room = weight_room(sum(matrix.raw.nbytes for matrix in matrices))
    placed, at = [], 0
    for matrix in matrices:
        own = room[at : at + matrix.raw.nbytes]
        own[:] = matrix.raw
        placed.append(dataclasses.replace(matrix, raw=own.toreadonly()))
        at += len(own)
    gate, up, down = placed
    activation = Activation(kind=ActivationKind.SWIGLU)
    return ExpertWeights(gate=gate, up=up, down=down, activation=activation)
