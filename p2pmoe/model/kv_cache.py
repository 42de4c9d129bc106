"""The keys and values of one sequence, bounded from the start.

Memory is taken for `capacity` positions when the cache is made; nothing grows. A step
writes behind `length` and then advances it: a step that failed leaves no trace, and
`truncate` forgets positions exactly (they are overwritten). Keys lie dimension by
dimension, values position by position, as `attention` reads them. f32.
"""

from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.errors import CacheFull

__all__ = ["KvCache", "LayerCache", "empty_layer"]


@dataclass(frozen=True, slots=True, eq=False)
class LayerCache:
    """What one layer keeps; only positions below the cache's length mean anything."""

    keys: Floats  # [n_kv_heads, head_dim, capacity]
    values: Floats  # [capacity, n_kv_heads, value_dim]
    index_keys: Floats | None  # [1, index_dim, capacity], block-sparse layers only

    @property
    def n_bytes(self) -> int:
        """Memory taken."""
        index = 0 if self.index_keys is None else self.index_keys.nbytes
        return self.keys.nbytes + self.values.nbytes + index


class KvCache:
    """Keys and values of all layers for up to `capacity` positions."""

    def __init__(self, capacity: int, layers: tuple[LayerCache, ...]) -> None:
        """Take over the layers' memory; the sequence is empty."""
        self.capacity = capacity
        self.layers = layers
        self._length = 0

    @property
    def length(self) -> int:
        """Positions written so far."""
        return self._length

    @property
    def n_bytes(self) -> int:
        """Memory taken, in bytes."""
        return sum(layer.n_bytes for layer in self.layers)

    def reserve(self, n_tokens: int) -> int:
        """Return where the next `n_tokens` go, or raise CacheFull."""
        if self._length + n_tokens > self.capacity:
            raise CacheFull(
                f"{self._length} + {n_tokens} tokens do not fit a KV cache of "
                f"{self.capacity}"
            )
        return self._length

    def advance(self, n_tokens: int) -> None:
        """Count `n_tokens` more positions as written."""
        self._length = self.reserve(n_tokens) + n_tokens

    def truncate(self, length: int) -> None:
        """Forget all positions from `length` on; ValueError if there are fewer."""
        if not 0 <= length <= self._length:
            raise ValueError(f"cannot truncate {self._length} positions to {length}")
        self._length = length


def empty_layer(
    capacity: int,
    n_kv_heads: int,
    head_dim: int,
    value_dim: int,
    index_dim: int | None = None,
) -> LayerCache:
    """Return a layer's memory for `capacity` positions.

    Values may be of another length than keys; `index_dim` is for block-sparse layers.
    """
    return LayerCache(
        np.zeros((n_kv_heads, head_dim, capacity), np.float32),
        np.zeros((capacity, n_kv_heads, value_dim), np.float32),
        None if index_dim is None else np.zeros((1, index_dim, capacity), np.float32),
    )
