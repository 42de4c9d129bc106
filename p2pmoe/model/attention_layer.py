"""A layer's attention with grouped queries (GQA): projections, cache, output.

    q, k, v = split(Wqkv a + bqkv)
    q, k    = turn(clip(norm_q q)), turn(clip(norm_k k)),   v = clip(v)
    result  = Wo attend(q, k, v) + bo

Biases, norms, clip, window and sinks are each there or not; see the architecture. The
layer's own norm and the residual are the decoder's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.attention import AttentionRule
from p2pmoe.model.indexer import Indexer
from p2pmoe.model.kv_cache import LayerCache, empty_layer
from p2pmoe.model.linear import Linear
from p2pmoe.model.qk_norm import QkNorm
from p2pmoe.model.rope import Rope
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.model.settings import HeadSettings
from p2pmoe.model.step import StepRows

__all__ = ["AttentionLayer"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionLayer:
    """One layer's attention; block-sparse if it has an indexer."""

    heads: HeadSettings
    qkv: Linear  # to (n_heads + 2 * n_kv_heads) * head_dim
    output: Linear  # from n_heads * head_dim
    rope: Rope
    rule: AttentionRule
    operations: RowOperations
    qk_norm: QkNorm | None = None
    clip: float | None = None  # largest magnitude of queries, keys and values
    indexer: Indexer | None = None

    def empty_cache(self, n_tokens: int, limit: int) -> LayerCache:
        """Return memory for `n_tokens` positions, of a cache that may grow to `limit`.

        There are index keys only if a context of `limit` can leave a block out.
        """
        own, indexer = self.heads, self.indexer
        index_dim = None
        if indexer is not None and limit > indexer.selection.n_all:
            index_dim = indexer.index_dim
        return empty_layer(
            n_tokens, own.n_kv_heads, own.head_dim, own.head_dim, index_dim
        )

    def __call__(self, a: Floats, kept: Sequence[LayerCache], rows: StepRows) -> Floats:
        """Return the output f32 [n, n_embd] and write the rows' keys and values.

        Args:
            a: f32 [n, n_embd], normed.
            kept: The layer's cache of each run, written up to its first position.
            rows: Which rows belong together, and their positions.

        Raises:
            NonFinite: a matrix takes coded rows and the input is not finite.
        """
        n, own = len(a), self.heads
        heads = self.qkv(a).reshape(n, -1, own.head_dim)
        turned, values = self._prepared(heads)
        self.operations.turn(turned, *rows.tables(self.rope), self.rope.interleaved)
        queries = turned[:, : own.n_heads]
        queries = queries.reshape(n, own.n_kv_heads, -1, own.head_dim)
        masks = None
        if self.indexer is not None:
            masks = self.indexer.masks(a, kept, rows)
        mixed = self.operations.attend_runs(
            queries,
            turned[:, own.n_heads :],
            values,
            rows.attention_runs(kept, masks),
            self.rule,
        )
        return self.output(mixed.reshape(n, -1))

    def _prepared(self, heads: Floats) -> tuple[Floats, Floats]:
        """Return queries and keys to be turned, contiguous, and the values."""
        n_turned = self.heads.n_heads + self.heads.n_kv_heads
        turned, values = heads[:, :n_turned], heads[:, n_turned:]
        if self.qk_norm is None:
            turned = np.ascontiguousarray(turned)
        else:
            turned = self.qk_norm(turned)
        if self.clip is not None:
            limit = np.float32(self.clip)
            turned = np.clip(turned, -limit, limit)
            values = np.clip(values, -limit, limit)
        return turned, values
