"""A model's dense parts: matrices, and what their products are put together to."""

from collections.abc import Callable

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from p2pmoe.model.mixing import gate_rows
from p2pmoe.model.products import products_for

__all__ = ["FeedForward", "GatedFeedForward", "Linear"]


class Linear:
    """Matrices that share an input, their outputs side by side."""

    def __init__(
        self, kernel: Kernel, *matrices: Matrix, bias: Floats | None = None
    ) -> None:
        """Keep the matrices, which are read in place, and a bias [sum of n_rows]."""
        self._product = products_for(kernel).linear(matrices, bias)

    def __call__(self, x: Floats) -> Floats:
        """Return the products, the bias added last, f32 [n, sum of n_rows].

        Raises NonFinite for a bad input.
        """
        return self._product(x)


class FeedForward:
    """A dense gated feed-forward: a leading layer's, or a shared expert."""

    def __init__(self, kernel: Kernel, weights: ExpertWeights) -> None:
        """Keep the weights; they are read in place."""
        self._product = products_for(kernel).feed_forward(weights)

    def __call__(self, x: Floats) -> Floats:
        """Return f32 [n, n_embd]; never coded, because it never travels. NonFinite."""
        return self._product(x)


class GatedFeedForward:
    """A shared expert times the sigmoid of one value a row: sigmoid(w x) ff(x)."""

    def __init__(self, gate: Callable[[Floats], Floats], inner: FeedForward) -> None:
        """Take the product with w, f32 [n, n_embd] -> [n, 1], and the expert."""
        self._gate = gate
        self._inner = inner

    def __call__(self, x: Floats) -> Floats:
        """Return f32 [n, n_embd]; NonFinite."""
        return gate_rows(self._inner(x), self._gate(x))
