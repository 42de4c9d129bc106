"""The interface of everything that multiplies: numpy, native C, wasm.

A kernel is pure arithmetic: it holds no session, opens nothing, and returns the same
bytes for the same input as any other kernel (specification 02). A row comes out the
same alone or in any batch. Kernels may be called from several threads at once.

Coded rows that the block coding cannot have produced (a code of -128, a scale that is
negative or not finite) are refused with CodeRefused by every method that takes rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import CodedRows, ExpertInput, Floats
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.profiles import Profile

__all__ = ["Kernel", "KernelCall", "KernelOnThreads"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelCall:
    """One expert and the rows of a shared input that go through it.

    `rows` None means all of them.
    """

    weights: ExpertWeights
    rows: npt.NDArray[np.int64] | None = None  # [n]


class Kernel(Protocol):
    """Products of rows with matrices and whole experts, exact to the bit."""

    @property
    def name(self) -> str:
        """What it is and runs on: "numpy", "native/avx2", "wasm/relaxed" and so on."""
        ...

    @property
    def decoded_bytes(self) -> int:
        """The memory it may use beside the weights' own bytes; 0 for none."""
        ...

    def code_rows(self, x: Floats) -> CodedRows:
        """Code activations `x` f32 [n, n_cols], q = 127; NonFinite, ShapeMismatch."""
        ...

    def matmul(self, matrix: Matrix, rows: ExpertInput) -> Floats:
        """Return rows x matrix^T, f32 [n, matrix.n_rows].

        Integer formats read `rows.coded`, float formats `rows.floats`. Raises
        ShapeMismatch if that is missing or of another width or type; nothing is
        converted. May return non-finite values; the caller checks.
        """
        ...

    def matmul_stacked(self, matrices: Sequence[Matrix], rows: ExpertInput) -> Floats:
        """Return the products with several matrices side by side.

        f32 [n, sum of n_rows]: what `matmul` gives for each, in this order.
        """
        ...

    def expert(
        self, weights: ExpertWeights, rows: ExpertInput, profile: Profile
    ) -> bytes:
        """Run all rows through one expert; return the results coded by the profile.

        Raises NonFinite (error ARITH) if any value on the way is not finite, or if what
        a code of the result stands for is not.
        """
        ...

    def experts(
        self, calls: Sequence[KernelCall], rows: ExpertInput, profile: Profile
    ) -> list[bytes]:
        """Do `expert` for each call on its rows; raises NonFinite if one call does."""
        ...

    def expert_values(
        self, calls: Sequence[KernelCall], rows: ExpertInput, profile: Profile
    ) -> list[Floats]:
        """Return what `decode_result` makes of `experts`: f32 [n_call, n_embd] each."""
        ...

    def feed_forward(self, weights: ExpertWeights, rows: ExpertInput) -> Floats:
        """Return an expert's uncoded results f32 [n, n_embd]; NonFinite.

        For what never travels: dense layers and shared experts.
        """
        ...


@runtime_checkable
class KernelOnThreads(Protocol):
    """What a kernel has beside the rest that shares one call among threads."""

    def use_threads(self, n_threads: int) -> None:
        """Share among so many from now on, as many as it began with at most."""
        ...
