"""The kernel in C: reads weights in place, computes without the interpreter's lock.

The extension `_kernel` (source in `mobile_worker/arithmetic/c`) checks every length
against the shapes; this module hands it arrays of the right type and turns outcomes
into the errors of the arithmetic. Nothing is unpacked or kept beside the weights.

With several threads the work of one call is cut by experts, by output rows or by input
rows; a row never depends on another, so the bytes are those of one thread.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import numpy as np

from mobile_worker.arithmetic.coding import (
    BLOCK,
    CodedRows,
    ExpertInput,
    Floats,
    check_floats,
)
from mobile_worker.arithmetic.errors import KernelUnavailable, NonFinite
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix, rows_of
from mobile_worker.arithmetic.native.arguments import (
    CallArguments,
    RowArguments,
    call_arguments,
    check_width,
    contiguous,
    count_rows,
    cut_call,
    macs,
    matrix_arguments,
    refuse,
    row_arguments,
)
from mobile_worker.arithmetic.native.extension import load_extension
from mobile_worker.arithmetic.native.portions import split_calls, split_rows
from mobile_worker.arithmetic.native.spread import spread_expert
from mobile_worker.arithmetic.profiles import (
    Profile,
    encode_result,
    result_row_bytes,
    round_result,
)

__all__ = ["VALUES", "NativeKernel", "native_sets"]

_WORTH_A_THREAD: Final = 1 << 21  # multiply-adds, some 0.1 ms
# Profile -> the extension's numbers for coded results and for their values.
_CODED: Final = {Profile.R32: 0, Profile.R16: 1, Profile.R8: 2}
VALUES: Final = {Profile.R32: 3, Profile.R16: 4, Profile.R8: 5}


def native_sets() -> tuple[str, ...]:
    """Return the instruction sets that run here, best first; none if not built."""
    try:
        return load_extension().sets()
    except KernelUnavailable:
        return ()


class NativeKernel:
    """Exact products and experts in C; a `Kernel`."""

    def __init__(self, isa: str | None = None, *, n_threads: int = 1) -> None:
        """Compute with an instruction set, the best for None, on `n_threads` threads.

        Raises:
            KernelUnavailable: the extension is not built or the CPU lacks the set.
        """
        self.extension = load_extension()
        sets = self.extension.sets()
        if isa is not None and isa not in sets:
            raise KernelUnavailable(
                f"there is no kernel native/{isa[:40]} on this machine",
                advice=f"it has {', '.join(f'native/{each}' for each in sets)}",
            )
        self.isa = isa or sets[0]
        self.n_threads = self._most_threads = max(1, n_threads)
        self._pool = (
            ThreadPoolExecutor(self.n_threads - 1, thread_name_prefix="kernel")
            if self.n_threads > 1
            else None
        )

    @property
    def name(self) -> str:
        """Its name in tables and settings."""
        return f"native/{self.isa}"

    @property
    def decoded_bytes(self) -> int:
        """It keeps nothing beside the weights' own bytes."""
        return 0

    def code_rows(self, x: Floats) -> CodedRows:
        """Code activations `x` f32 [n, n_cols], q = 127; NonFinite, ShapeMismatch."""
        check_floats(x)
        n, n_cols = x.shape
        codes = np.empty((n, n_cols), np.int8)
        scales = np.empty((n, n_cols // BLOCK), np.float32)
        outcome = self.extension.code_rows(
            self.isa, contiguous(x), n * n_cols, codes, scales
        )
        if outcome:
            raise NonFinite("a row to be coded holds a non-finite value")
        return CodedRows(codes=codes, scales=scales)

    def matmul(self, matrix: Matrix, rows: ExpertInput) -> Floats:
        """Return rows x matrix^T, f32 [n, matrix.n_rows]; ShapeMismatch."""
        return self.matmul_stacked((matrix,), rows)

    def matmul_stacked(self, matrices: Sequence[Matrix], rows: ExpertInput) -> Floats:
        """Return the products with several matrices side by side; as `matmul`."""
        width = sum([matrix.n_rows for matrix in matrices])
        out = np.empty((rows.n_rows, width), np.float32)
        inputs = row_arguments(rows)
        n_parts = 1
        if self._pool is not None:
            work = rows.n_rows * sum(m.n_rows * m.n_cols for m in matrices)
            n_parts = self.n_parts(work)
        column = 0
        parts = []
        for matrix in matrices:
            check_width(matrix, rows)
            if n_parts == 1:
                self._multiply(matrix, inputs, out, column)
            else:
                for first, end in split_rows(matrix.n_rows, n_parts):
                    part = rows_of(matrix, first, end)
                    parts.append((part, inputs, out, column + first))
            column += matrix.n_rows
        self.share_out([partial(self._multiply, *part) for part in parts])
        return out

    def expert(
        self, weights: ExpertWeights, rows: ExpertInput, profile: Profile
    ) -> bytes:
        """Run all rows through one expert; coded results. NonFinite, ShapeMismatch."""
        return self.experts((KernelCall(weights=weights),), rows, profile)[0]

    def experts(
        self, calls: Sequence[KernelCall], rows: ExpertInput, profile: Profile
    ) -> list[bytes]:
        """Run each call's rows through its expert; NonFinite, ShapeMismatch."""
        if self._is_worth_spreading(calls, rows):
            y = spread_expert(self, calls[0].weights, rows)
            return [encode_result(y, profile)]
        outs = [
            np.empty((n, result_row_bytes(profile, call.weights.down.n_rows)), np.uint8)
            for n, call in zip(count_rows(calls, rows), calls, strict=True)
        ]
        self._run(calls, rows, _CODED[profile], outs)
        return [out.tobytes() for out in outs]

    def expert_values(
        self, calls: Sequence[KernelCall], rows: ExpertInput, profile: Profile
    ) -> list[Floats]:
        """Return the values of `experts` as they arrive elsewhere; NonFinite."""
        return self._values(calls, rows, profile)

    def feed_forward(self, weights: ExpertWeights, rows: ExpertInput) -> Floats:
        """Return an expert's uncoded results, f32 [n, n_embd]; NonFinite."""
        return self._values((KernelCall(weights=weights),), rows, Profile.R32)[0]

    def _values(
        self, calls: Sequence[KernelCall], rows: ExpertInput, profile: Profile
    ) -> list[Floats]:
        if self._is_worth_spreading(calls, rows):
            return [round_result(spread_expert(self, calls[0].weights, rows), profile)]
        outs = [
            np.empty((n, call.weights.down.n_rows), np.float32)
            for n, call in zip(count_rows(calls, rows), calls, strict=True)
        ]
        self._run(calls, rows, VALUES[profile], outs)
        return outs

    def _is_worth_spreading(
        self, calls: Sequence[KernelCall], rows: ExpertInput
    ) -> bool:
        """Say whether this is one row through one expert that is wide enough."""
        if self._pool is None or len(calls) != 1 or rows.n_rows != 1:
            return False
        return calls[0].rows is None and self.n_parts(macs(calls[0].weights)) > 1

    def use_threads(self, n_threads: int) -> None:
        """Share calls among so many from now on, as many as it began with at most."""
        self.n_threads = max(1, min(n_threads, self._most_threads))

    def n_parts(self, work: int) -> int:
        """Return among how many threads this many multiply-adds are shared out."""
        if self._pool is None:
            return 1
        return max(1, min(self.n_threads, work // _WORTH_A_THREAD))

    def share_out(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Do all jobs, the first in this thread; raises what one of them raises."""
        if self._pool is None or len(jobs) < 2:
            for job in jobs:
                job()
            return
        others = [self._pool.submit(job) for job in jobs[1:]]
        try:
            jobs[0]()
        finally:
            for other in others:
                other.exception()  # none is left writing into our arrays
        for other in others:
            other.result()

    def _multiply(
        self, matrix: Matrix, rows: RowArguments, out: Floats, column: int
    ) -> None:
        own = matrix_arguments(matrix, None)
        width = out.shape[1]
        refuse(self.extension.product(self.isa, own, *rows, out, width, column))

    def _run(
        self,
        calls: Sequence[KernelCall],
        rows: ExpertInput,
        result: int,
        outs: Sequence[np.ndarray],
    ) -> None:
        """Run calls into `outs`, cut into parts where that pays."""
        if not calls:
            return
        inputs = row_arguments(rows)
        for call in calls:
            check_width(call.weights.gate, rows)
            check_width(call.weights.up, rows)
        if self._pool is None:
            own = tuple([call_arguments(call) for call in calls])
            self._compute(own, inputs, result, tuple(outs))
            return
        n_rows = [len(out) for out in outs]
        work = [n * macs(c.weights) for n, c in zip(n_rows, calls, strict=True)]
        jobs = []
        for part in split_calls(work, n_rows, self.n_parts(sum(work))):
            cut = [cut_call(calls[at], outs[at], *span) for at, *span in part]
            own = tuple(call_arguments(call) for call, _ in cut)
            jobs.append((own, inputs, result, tuple(place for _, place in cut)))
        self.share_out([partial(self._compute, *job) for job in jobs])

    def _compute(
        self,
        calls: tuple[CallArguments, ...],
        rows: RowArguments,
        result: int,
        outs: tuple[np.ndarray, ...],
    ) -> None:
        n_cols = calls[0][3][2]
        refuse(self.extension.experts(self.isa, calls, *rows, n_cols, result, outs))
