"""The seam between layers and matrices: products of plain float rows, coded on the way.

A `Kernel` takes rows that are coded already, because a worker is sent them so. A model
on this machine has floats: it asks for a product once, with the weights, and calls it
in every step. Two implementations give the same bytes:

    KernelProducts                              any kernel, by its own interface
    mobile_worker.arithmetic.native.held        native kernels: one call into C

`products_for` says which belongs to a kernel.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import ExpertInput, Floats
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.kernel import Kernel, KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.native.held import NativeProducts
from mobile_worker.arithmetic.native.native_kernel import NativeKernel
from mobile_worker.arithmetic.profiles import Profile

__all__ = [
    "KernelProducts",
    "Product",
    "Products",
    "code_input",
    "kinds_of",
    "products_for",
]

Product = Callable[[Floats], Floats]  # rows f32 [n, n_cols] to rows [n, n_rows]
Indices = npt.NDArray[np.int64]


def kinds_of(matrices: Iterable[Matrix]) -> frozenset[bool]:
    """Return the kinds of input that matrices read: True coded rows, False floats."""
    return frozenset(map(is_integer, {matrix.format for matrix in matrices}))


def code_input(kernel: Kernel, x: Floats, kinds: frozenset[bool]) -> ExpertInput:
    """Return rows f32 [n, n_cols] in these kinds; NonFinite."""
    return ExpertInput(
        coded=kernel.code_rows(x) if True in kinds else None,
        floats=x if False in kinds else None,
    )


class Products(Protocol):
    """Products with weights that stay; safe to use from threads."""

    def linear(self, matrices: Sequence[Matrix], bias: Floats | None) -> Product:
        """Return the product with several matrices side by side, a bias added last.

        The product raises NonFinite if a row to be coded is not finite.
        """
        ...

    def feed_forward(self, weights: ExpertWeights) -> Product:
        """Return the product with a whole expert, its results uncoded; NonFinite."""
        ...

    def routed(
        self,
        weights: Mapping[int, ExpertWeights],
        chosen: Indices,
        x: Floats,
        profile: Profile,
    ) -> Floats:
        """Return the values of each row's experts, f32 [n, top_k, n_embd].

        `chosen` [n, top_k] names experts by their keys in `weights`, each row's own
        ones different; `x` f32 [n, n_embd], uncoded. Values are coded and decoded by
        the profile. Raises NonFinite if one is not finite, KeyError for an expert that
        is not there.
        """
        ...


class KernelProducts:
    """The reference: by the kernel's own interface."""

    def __init__(self, kernel: Kernel) -> None:
        """Compute with `kernel`."""
        self._kernel = kernel

    def linear(self, matrices: Sequence[Matrix], bias: Floats | None) -> Product:
        """See `Products`."""
        kinds = kinds_of(matrices)

        def product(x: Floats) -> Floats:
            y = self._kernel.matmul_stacked(
                matrices, code_input(self._kernel, x, kinds)
            )
            return y if bias is None else y + bias

        return product

    def feed_forward(self, weights: ExpertWeights) -> Product:
        """See `Products`."""
        kinds = kinds_of((weights.gate, weights.up))

        def product(x: Floats) -> Floats:
            return self._kernel.feed_forward(
                weights, code_input(self._kernel, x, kinds)
            )

        return product

    def routed(
        self,
        weights: Mapping[int, ExpertWeights],
        chosen: Indices,
        x: Floats,
        profile: Profile,
    ) -> Floats:
        """See `Products`."""
        calls, places = [], []
        for index in np.unique(chosen).tolist():
            rows, slots = np.nonzero(chosen == index)
            calls.append(KernelCall(weights=weights[index], rows=rows))
            places.append((rows, slots))
        out = np.empty((*chosen.shape, x.shape[1]), np.float32)
        if not calls:
            return out
        own = [call.weights for call in calls]
        kinds = kinds_of([part for each in own for part in (each.gate, each.up)])
        results = self._kernel.expert_values(
            calls, code_input(self._kernel, x, kinds), profile
        )
        for (rows, slots), values in zip(places, results, strict=True):
            out[rows, slots] = values
        return out


def products_for(kernel: Kernel) -> Products:
    """Return what belongs to a kernel; it keeps nothing of its own."""
    if isinstance(kernel, NativeKernel) and hasattr(kernel.extension, "routed"):
        return NativeProducts(kernel)
    return KernelProducts(kernel)  # another kernel, or a stale build
