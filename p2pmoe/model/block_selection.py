"""Which blocks of positions a row of block-sparse attention sees.

MiniMax-M3's indexer has one small head for each KV head. It scores every position up to
the row's own, without scale and without values; a block's score is the best of its
positions. Each KV head's queries see the `top_k` best blocks by that head's scores; the
row's own block and the `n_local - 1` before it always rank first. Ties go to the lower
block.

Found by experiment: of all combinations of pooling (best, sum, mean), index heads
(each, best, sum), and own block (inside the top k, beside it, not at all), only this
one gives the logits of ../shared/models/tiny/minimax_m3 beyond 48 positions.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats

__all__ = ["BlockSelection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSelection:
    """The constants of a block-sparse layer."""

    top_k: int
    block_size: int
    n_local: int

    @property
    def n_all(self) -> int:
        """Positions up to which every block is selected anyway."""
        return self.top_k * self.block_size

    def seen(self, scores: Floats, first: int) -> npt.NDArray[np.bool_]:
        """Return what each row sees, bool [n, n_kv_heads, n_positions].

        Future positions may be among them: causality is the attention's own.

        Args:
            scores: f32 [n, n_kv_heads, n_positions], of each row with each position;
                n_positions = first + n.
            first: The position of the first row.
        """
        n, n_heads, n_positions = scores.shape
        n_blocks = -(-n_positions // self.block_size)
        rows = np.arange(first, first + n)[:, None, None]
        width = n_blocks * self.block_size
        past = np.full((n, n_heads, width), -np.inf, np.float32)
        causal = np.arange(n_positions) <= rows
        np.copyto(past[:, :, :n_positions], scores, where=causal)
        blocks = past.reshape(n, n_heads, n_blocks, self.block_size).max(axis=3)
        own = rows // self.block_size
        ids = np.arange(n_blocks)
        local = (ids <= own) & (ids > own - self.n_local)
        blocks = np.where(local, np.float32(np.inf), blocks)
        # Stable, so that the lower block comes first among equals.
        best = np.argsort(-blocks, axis=2, kind="stable")[:, :, : self.top_k]
        chosen = np.zeros(blocks.shape, np.bool_)
        np.put_along_axis(chosen, best, values=True, axis=2)
        return np.repeat(chosen, self.block_size, axis=2)[:, :, :n_positions]
