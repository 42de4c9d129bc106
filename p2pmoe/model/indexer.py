"""The small heads beside a block-sparse layer's own, by which its blocks are chosen.

They read the layer's normed input, have norms of their own, and turn by position like
the layer's heads. Their keys lie in the layer's cache; what they choose is
`block_selection`'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.attention import Mask
from p2pmoe.model.block_selection import BlockSelection
from p2pmoe.model.kv_cache import LayerCache
from p2pmoe.model.linear import Linear
from p2pmoe.model.rope import Rope
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.model.step import StepRows

__all__ = ["Indexer"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Indexer:
    """One layer's index tensors; as many query heads as KV heads, one key head."""

    query: Linear  # to n_heads * index_dim
    query_norm: Floats  # [index_dim]
    key: Linear  # to index_dim
    key_norm: Floats  # [index_dim]
    selection: BlockSelection
    rope: Rope
    eps: np.float32
    operations: RowOperations

    @property
    def index_dim(self) -> int:
        """Values of an index head."""
        return len(self.key_norm)

    def masks(
        self, a: Floats, kept: Sequence[LayerCache], rows: StepRows
    ) -> list[Mask | None]:
        """Write the rows' index keys; return what each run sees, None if that is all.

        Runs whose cache has no index keys are so short that they see everything.

        Args:
            a: f32 [n, n_embd], the layer's normed input.
            kept: The layer's cache of each run.
            rows: Which rows belong together, and their positions.

        Returns:
            For each run None or bool [n of it, n_heads, n_seen]; see
            `BlockSelection.seen`.

        Raises:
            NonFinite: a matrix takes coded rows and the input is not finite.
        """
        if all(cache.index_keys is None for cache in kept):
            return [None] * len(kept)
        key = self._turned(self.key(a)[:, None, :], self.key_norm, rows)[:, 0].T
        for run, cache in zip(rows.runs, kept, strict=True):
            if cache.index_keys is not None:
                here = slice(run.first, run.n_seen)
                cache.index_keys[0, :, here] = key[:, run.start : run.end]
        if all(run.n_seen <= self.selection.n_all for run in rows.runs):
            return [None] * len(kept)
        queries = self.query(a).reshape(len(a), -1, self.index_dim)
        queries = self._turned(queries, self.query_norm, rows)
        return [
            self._seen(queries[run.start : run.end], cache.index_keys, run.first)
            for run, cache in zip(rows.runs, kept, strict=True)
        ]

    def _turned(self, heads: Floats, norm: Floats, rows: StepRows) -> Floats:
        heads = self.operations.rms_norm(heads, norm, self.eps)
        tables = rows.tables(self.rope)
        self.operations.turn(heads, *tables, interleaved=self.rope.interleaved)
        return heads

    def _seen(
        self, queries: Floats, index_keys: Floats | None, first: int
    ) -> Mask | None:
        """Return what a run's rows see; `queries` [n, n_heads, index_dim]."""
        end = first + len(queries)
        if index_keys is None or end <= self.selection.n_all:
            return None
        scores = self.operations.dot_scores(queries[:, None], index_keys, end)
        return self.selection.seen(scores[:, 0], first)
