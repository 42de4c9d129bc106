"""The seam between layers and arithmetic: the backbone's own operations.

What an architecture computes beside products with the file's matrices (those are the
kernel's) goes through `RowOperations`: norms, rotary, attention, the router, the mix of
expert results. Each is row-wise: a row comes out the same alone or in any batch, chunk
or thread (specification 02, "The backbone's own operations"). Two implementations give
the same bytes:

    NumpyOperations                              the reference, to be read
    mobile_worker.arithmetic.native.rows         C, for native kernels

A layer takes them at load, beside its kernel (`native_operations` says which belong to
which). New architectures call these and add none of their own arithmetic.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.lanes import lane_matmul, lane_weights
from p2pmoe.model import attention, choice, mixing, norm, rope
from p2pmoe.model.attention import AttentionRule, AttentionRun, Mask
from p2pmoe.model.choice import RouterSettings

__all__ = ["NUMPY_OPERATIONS", "NumpyOperations", "RowOperations"]


class RowOperations(Protocol):
    """Row-wise arithmetic on f32 arrays; stateless, safe to use from threads."""

    name: str  # "numpy", "native/avx2" and so on

    def rms_norm(self, x: Floats, weight: Floats, eps: np.float32) -> Floats:
        """Return the normed rows of `x` [..., n].

        `weight` is [n], or [k, n] for `x` [..., k, n].
        """
        ...

    def turn(
        self, heads: Floats, cosines: Floats, sines: Floats, interleaved: bool
    ) -> None:
        """Turn contiguous `heads` [n, n_heads, head_dim] in place.

        The tables are [n, half], row by row, as `Rope.tables` returns them. Pairs are
        neighbours if `interleaved`, else half apart.
        """
        ...

    def attend(
        self,
        queries: Floats,
        keys: Floats,
        values: Floats,
        first: int,
        rule: AttentionRule,
        seen: Mask | None,
    ) -> Floats:
        """Attend causally over a KV cache; returns [n, n_kv_heads, group, value_dim].

        Args:
            queries: [n, n_kv_heads, group, head_dim]; row i is position first + i.
            keys: [n_kv_heads, head_dim, >= first + n], contiguous.
            values: [>= first + n, n_kv_heads, value_dim], contiguous.
            first: The position of the first row.
            rule: Scale, window, soft cap and sinks.
            seen: Which positions each row may see beyond causality and window, bool
                [n, n_kv_heads, first + n]; None for all. Each row sees its own.
        """
        ...

    def attend_runs(
        self,
        queries: Floats,
        new_keys: Floats,
        new_values: Floats,
        runs: Sequence[AttentionRun],
        rule: AttentionRule,
    ) -> Floats:
        """Keep the rows' keys and values, then `attend`, each run in its own cache.

        Args:
            queries: [n, n_kv_heads, group, head_dim].
            new_keys: [n, n_kv_heads, head_dim], of the same rows.
            new_values: [n, n_kv_heads, value_dim].
            runs: They follow each other and have all n rows.
            rule: Scale, window, soft cap and sinks.
        """
        ...

    def dot_scores(self, queries: Floats, keys: Floats, n_keys: int) -> Floats:
        """Return dot products with the first keys, [n, n_kv_heads, group, n_keys].

        `queries` [n, n_kv_heads, group, head_dim]; `keys` [n_kv_heads, head_dim,
        >= n_keys], contiguous.
        """
        ...

    def lane_product(self, weight: Floats) -> Callable[[Floats], Floats]:
        """Return x [n, n_cols] -> x times `weight`^T, [n, n_rows], in eight lanes.

        `weight` [n_rows, n_cols] is laid out once, for as long as the product lives.
        """
        ...

    def choose(
        self, logits: Floats, bias: Floats | None, rule: RouterSettings
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return each row's experts, ascending, and their weights, [n, top_k] both.

        `logits` [n, n_expert]; `bias` [n_expert] counts for choosing only.
        """
        ...

    def weighted_sum(self, values: Floats, weights: Floats) -> Floats:
        """Return the sum over slots ascending of weight times value, [n, n_embd].

        `values` [n, top_k, n_embd], `weights` [n, top_k].
        """
        ...


class NumpyOperations:
    """The reference."""

    name = "numpy"

    def rms_norm(self, x: Floats, weight: Floats, eps: np.float32) -> Floats:
        """See `norm.rms_norm`."""
        return norm.rms_norm(x, weight, eps)

    def turn(
        self, heads: Floats, cosines: Floats, sines: Floats, interleaved: bool
    ) -> None:
        """See `rope.turn`."""
        rope.turn(heads, cosines, sines, interleaved)

    def attend(
        self,
        queries: Floats,
        keys: Floats,
        values: Floats,
        first: int,
        rule: AttentionRule,
        seen: Mask | None,
    ) -> Floats:
        """See `attention.attend`."""
        return attention.attend(queries, keys, values, first, rule, seen)

    def attend_runs(
        self,
        queries: Floats,
        new_keys: Floats,
        new_values: Floats,
        runs: Sequence[AttentionRun],
        rule: AttentionRule,
    ) -> Floats:
        """See `attention.attend_runs`."""
        return attention.attend_runs(queries, new_keys, new_values, runs, rule)

    def dot_scores(self, queries: Floats, keys: Floats, n_keys: int) -> Floats:
        """See `attention.dot_scores`."""
        return attention.dot_scores(queries, keys[:, :, :n_keys])

    def lane_product(self, weight: Floats) -> Callable[[Floats], Floats]:
        """See `lanes.lane_matmul`."""
        laid_out = lane_weights(weight)
        return lambda x: lane_matmul(laid_out, x)

    def choose(
        self, logits: Floats, bias: Floats | None, rule: RouterSettings
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """See `choice.choose`."""
        return choice.choose(logits, bias, rule)

    def weighted_sum(self, values: Floats, weights: Floats) -> Floats:
        """See `mixing.weighted_sum`."""
        return mixing.weighted_sum(values, weights)


NUMPY_OPERATIONS: Final = NumpyOperations()
