"""A model's dense parts: matrices with the coding of their input attached."""

from collections.abc import Callable, Iterable

from mobile_worker.arithmetic.coding import ExpertInput, Floats
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from p2pmoe.model.mixing import gate_rows

__all__ = ["FeedForward", "GatedFeedForward", "Linear", "code_input", "kinds_of"]


def kinds_of(matrices: Iterable[Matrix]) -> frozenset[bool]:
    """Return the kinds of input that matrices read: True coded rows, False floats."""
    return frozenset(map(is_integer, {matrix.format for matrix in matrices}))


def code_input(kernel: Kernel, x: Floats, kinds: frozenset[bool]) -> ExpertInput:
    """Return rows f32 [n, n_cols] in these kinds; NonFinite."""
    return ExpertInput(
        coded=kernel.code_rows(x) if True in kinds else None,
        floats=x if False in kinds else None,
    )


class Linear:
    """Matrices that share an input, their outputs side by side."""

    def __init__(
        self, kernel: Kernel, *matrices: Matrix, bias: Floats | None = None
    ) -> None:
        """Keep the matrices, which are read in place, and a bias [sum of n_rows]."""
        self._kernel = kernel
        self._matrices = matrices
        self._bias = bias
        self._kinds = kinds_of(matrices)

    def __call__(self, x: Floats) -> Floats:
        """Return the products, the bias added last, f32 [n, sum of n_rows].

        Raises NonFinite for a bad input.
        """
        rows = code_input(self._kernel, x, self._kinds)
        y = self._kernel.matmul_stacked(self._matrices, rows)
        return y if self._bias is None else y + self._bias


class FeedForward:
    """A dense gated feed-forward: a leading layer's, or a shared expert."""

    def __init__(self, kernel: Kernel, weights: ExpertWeights) -> None:
        """Keep the weights; they are read in place."""
        self._kernel = kernel
        self._weights = weights
        self._kinds = kinds_of((weights.gate, weights.up))

    def __call__(self, x: Floats) -> Floats:
        """Return f32 [n, n_embd]; never coded, because it never travels. NonFinite."""
        rows = code_input(self._kernel, x, self._kinds)
        return self._kernel.feed_forward(self._weights, rows)


class GatedFeedForward:
    """A shared expert times the sigmoid of one value a row: sigmoid(w x) ff(x)."""

    def __init__(self, gate: Callable[[Floats], Floats], inner: FeedForward) -> None:
        """Take the product with w, f32 [n, n_embd] -> [n, 1], and the expert."""
        self._gate = gate
        self._inner = inner

    def __call__(self, x: Floats) -> Floats:
        """Return f32 [n, n_embd]; NonFinite."""
        return gate_rows(self._inner(x), self._gate(x))
