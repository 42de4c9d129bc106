"""A layer's attention: projections, QK norm per head, rotary, cache, output.

    Wo attend(rope(norm_q(Wq a)), rope(norm_k(Wk a)), Wv a)

for grouped queries (GQA). The layer's own norm and the residual are the architecture's.
"""

from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.attention import AttentionRule
from p2pmoe.model.indexer import Indexer
from p2pmoe.model.kv_cache import LayerCache, empty_layer
from p2pmoe.model.linear import Linear
from p2pmoe.model.rope import Rope
from p2pmoe.model.row_operations import RowOperations

__all__ = ["AttentionLayer"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionLayer:
    """One layer's attention; block-sparse if it has an indexer."""

    n_heads: int
    n_kv_heads: int
    head_dim: int
    qkv: Linear  # to (n_heads + 2 * n_kv_heads) * head_dim
    qk_norm: Floats  # [n_heads + n_kv_heads, head_dim]
    output: Linear  # from n_heads * head_dim
    indexer: Indexer | None
    rope: Rope
    eps: np.float32
    operations: RowOperations

    def empty_cache(self, n_tokens: int) -> LayerCache:
        """Return memory for `n_tokens` positions.

        Index keys have room only if a context this long can leave a block out.
        """
        indexer = self.indexer
        index_dim = None
        if indexer is not None and n_tokens > indexer.selection.n_all:
            index_dim = indexer.index_dim
        return empty_layer(n_tokens, self.n_kv_heads, self.head_dim, index_dim)

    def __call__(self, a: Floats, kept: LayerCache, first: int) -> Floats:
        """Return the output f32 [n, n_embd] and write the rows' keys and values.

        Args:
            a: f32 [n, n_embd], normed; row i is position first + i.
            kept: The layer's cache, written up to `first`.
            first: The position of the first row.

        Raises:
            NonFinite: a matrix takes coded rows and the input is not finite.
        """
        n = len(a)
        end = first + n
        heads = self.qkv(a).reshape(n, -1, self.head_dim)
        n_turned = self.n_heads + self.n_kv_heads
        turned = self.operations.rms_norm(heads[:, :n_turned], self.qk_norm, self.eps)
        tables = self.rope.tables(first, n)
        self.operations.turn(turned, *tables, interleaved=False)
        kept.keys[:, :, first:end] = turned[:, self.n_heads :].transpose(1, 2, 0)
        kept.values[first:end] = heads[:, n_turned:]
        seen = None
        if self.indexer is not None and kept.index_keys is not None:
            seen = self.indexer.seen(a, kept.index_keys, first)
        queries = turned[:, : self.n_heads]
        queries = queries.reshape(n, self.n_kv_heads, -1, self.head_dim)
        rule = AttentionRule(scale=1.0 / self.head_dim**0.5)
        mixed = self.operations.attend(
            queries, kept.keys, kept.values, first, rule, seen
        )
        return self.output(mixed.reshape(n, -1))
