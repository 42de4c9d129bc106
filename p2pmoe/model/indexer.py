"""The small heads beside a block-sparse layer's own, by which its blocks are chosen.

They read the layer's normed input, have norms of their own, and turn by position like
the layer's heads. Their keys lie in the layer's cache; what they choose is
`block_selection`'s.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.block_selection import BlockSelection
from p2pmoe.model.linear import Linear
from p2pmoe.model.rope import Rope
from p2pmoe.model.row_operations import RowOperations

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

    def seen(
        self, a: Floats, index_keys: Floats, first: int
    ) -> npt.NDArray[np.bool_] | None:
        """Write the rows' index keys; return what they see, None while that is all.

        Args:
            a: f32 [n, n_embd], the layer's normed input.
            index_keys: f32 [1, index_dim, >= first + n], the layer's cache.
            first: The position of the first row.

        Returns:
            bool [n, n_heads, first + n]; see `BlockSelection.seen`.

        Raises:
            NonFinite: a matrix takes coded rows and the input is not finite.
        """
        own = self.operations
        end = first + len(a)
        tables = self.rope.tables(first, len(a))
        key = own.rms_norm(self.key(a)[:, None, :], self.key_norm, self.eps)
        own.turn(key, *tables, interleaved=self.rope.interleaved)
        index_keys[0, :, first:end] = key[:, 0].T
        if end <= self.selection.n_all:
            return None
        queries = self.query(a).reshape(len(a), -1, self.index_dim)
        queries = own.rms_norm(queries, self.query_norm, self.eps)
        own.turn(queries, *tables, interleaved=self.rope.interleaved)
        scores = own.dot_scores(queries[:, None], index_keys, end)[:, 0]
        return self.selection.seen(scores, first)
