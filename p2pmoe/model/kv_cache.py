"""The keys and values of one sequence, bounded from the start.

Memory is taken for `capacity` positions when the cache is made, and for more only by
`grow`, up to `limit`. A step writes behind `length` and then advances it: a step that
failed leaves no trace, and `truncate` forgets positions exactly (they are overwritten).
Keys lie dimension by dimension, values position by position, as `attention` reads them.
f32. What a cache holds depends on its `limit`, never on how it came to its capacity.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.errors import CacheFull

__all__ = ["KvCache", "LayerCache", "empty_layer"]

Place: TypeAlias = tuple[slice | int, ...]


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

    def at(self, position: int) -> Iterator[tuple[Floats, Place]]:
        """Yield each array, and where in it a position is."""
        yield self.keys, (slice(None), slice(None), position)
        yield self.values, (position,)
        if self.index_keys is not None:
            yield self.index_keys, (slice(None), slice(None), position)

    def resized(self, length: int, capacity: int) -> "LayerCache":
        """Return new memory for `capacity` positions with the first `length` copied."""
        n_kv_heads, head_dim, _ = self.keys.shape
        index = self.index_keys
        new = empty_layer(
            capacity,
            n_kv_heads,
            head_dim,
            self.values.shape[2],
            None if index is None else index.shape[1],
        )
        new.keys[:, :, :length] = self.keys[:, :, :length]
        new.values[:length] = self.values[:length]
        if index is not None and new.index_keys is not None:
            new.index_keys[:, :, :length] = index[:, :, :length]
        return new


class KvCache:
    """Keys and values of all layers for up to `capacity` positions."""

    def __init__(
        self, capacity: int, layers: tuple[LayerCache, ...], limit: int | None = None
    ) -> None:
        """Take over the layers' memory; the sequence is empty.

        `limit` is the capacity it may ever grow to; None: it stays as it is.
        """
        self.capacity = capacity
        self.layers = layers
        self.limit = capacity if limit is None else limit
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

    def view(self, length: int) -> "KvCache":
        """Return a cache of `length` positions over the same memory, till this grows.

        What is written behind `length` by either is there for both, so that a draft
        needs no memory of its own. ValueError unless 0 <= length <= capacity.
        """
        if not 0 <= length <= self.capacity:
            raise ValueError(f"no {length} positions in a cache of {self.capacity}")
        view = KvCache(self.capacity, self.layers)
        view.advance(length)
        return view

    def copy_position(self, position: int, n_layers: int) -> list[Floats]:
        """Return copies of what the first layers have at a position, in order."""
        return [
            array[place].copy()
            for layer in self.layers[:n_layers]
            for array, place in layer.at(position)
        ]

    def put_position(self, position: int, copies: Sequence[Floats]) -> None:
        """Put back what `copy_position` returned."""
        arrays = (own for layer in self.layers for own in layer.at(position))
        for copy, (array, place) in zip(copies, arrays, strict=False):
            array[place] = copy

    def grow(self, capacity: int) -> None:
        """Take memory for `capacity` positions and copy what is there.

        Old and new memory exist side by side for one layer at a time. Nothing happens
        if there is as much already; CacheFull beyond `limit`.
        """
        if capacity <= self.capacity:
            return
        self._refuse_beyond_limit(capacity)
        for number in range(len(self.layers)):
            grown = self.layers[number].resized(self._length, capacity)
            self.layers = (*self.layers[:number], grown, *self.layers[number + 1 :])
        self.capacity = capacity

    def copy_prefix(self, length: int, capacity: int) -> "KvCache":
        """Return a cache of `capacity` positions, and this limit, that begins as this.

        The first `length` positions are copied. ValueError if there are fewer or they
        do not fit, CacheFull beyond `limit`.
        """
        if not 0 <= length <= min(self._length, capacity):
            raise ValueError(
                f"cannot copy {length} of {self._length} positions to {capacity}"
            )
        self._refuse_beyond_limit(capacity)
        layers = tuple(layer.resized(length, capacity) for layer in self.layers)
        copy = KvCache(capacity, layers, self.limit)
        copy.advance(length)
        return copy

    def _refuse_beyond_limit(self, capacity: int) -> None:
        if capacity > self.limit:
            raise CacheFull(
                f"a KV cache of at most {self.limit} positions cannot have {capacity}"
            )


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
