"""Norms of queries and keys before they turn: of each head, or of all heads as one row.

Both take heads f32 [n, n_heads + n_kv_heads, head_dim], queries first, and return new
rows of the same shape. Qwen3, GLM-4 and MiniMax-M3 norm each head by itself, with one
weight for all queries and one for all keys; OLMoE and MiniMax-M2 norm the whole row of
queries and the whole row of keys.
"""

from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.row_operations import RowOperations

__all__ = ["HeadNorm", "QkNorm", "RowNorm"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadNorm:
    """Each head by itself."""

    weight: Floats  # [n_heads + n_kv_heads, head_dim]
    eps: np.float32
    operations: RowOperations

    def __call__(self, heads: Floats) -> Floats:
        """Return the normed heads."""
        return self.operations.rms_norm(heads, self.weight, self.eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowNorm:
    """All query heads as one row, all key heads as another."""

    query: Floats  # [n_heads * head_dim]
    key: Floats  # [n_kv_heads * head_dim]
    eps: np.float32
    operations: RowOperations

    def __call__(self, heads: Floats) -> Floats:
        """Return the normed heads."""
        rows = heads.reshape(len(heads), -1)
        n = len(self.query)
        normed = np.empty(rows.shape, np.float32)
        normed[:, :n] = self.operations.rms_norm(rows[:, :n], self.query, self.eps)
        normed[:, n:] = self.operations.rms_norm(rows[:, n:], self.key, self.eps)
        return normed.reshape(heads.shape)


QkNorm = HeadNorm | RowNorm
