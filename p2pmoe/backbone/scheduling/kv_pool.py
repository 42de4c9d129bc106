"""The memory for keys and values: a number of bytes, granted before it is taken.

    granted    positions of running sequences, by what their caches may hold
    kept       caches of ended sequences, for prefixes to be reused

Granted and kept bytes together never exceed the pool. What is kept gives way to a
grant, least recently used first; sequences are for the schedule to preempt. Pure.
"""

from p2pmoe.backbone.scheduling.prefix_store import KeptPrefix, PrefixStore

__all__ = ["KvPool"]


class KvPool:
    """Bytes of the pool, granted by positions; see the module."""

    def __init__(self, n_bytes: int, token_bytes: int, max_kept: int = 64) -> None:
        """Begin with nothing granted; a position takes `token_bytes`."""
        self.n_bytes = n_bytes
        self.token_bytes = token_bytes
        self.store = PrefixStore()
        self._max_kept = max_kept
        self._granted = 0  # positions

    @property
    def granted_bytes(self) -> int:
        """Bytes of running sequences."""
        return self._granted * self.token_bytes

    @property
    def kept_bytes(self) -> int:
        """Bytes of kept prefixes."""
        return self.store.n_positions * self.token_bytes

    @property
    def free_bytes(self) -> int:
        """Bytes that are neither granted nor kept."""
        return self.n_bytes - self.granted_bytes - self.kept_bytes

    def could_hold(self, n_positions: int) -> bool:
        """Whether the whole pool would be enough."""
        return n_positions * self.token_bytes <= self.n_bytes

    def has_room(self, n_positions: int, *, keeping: KeptPrefix | None = None) -> bool:
        """Whether so many could be granted, by giving up all kept but `keeping`."""
        kept = 0 if keeping is None else keeping.capacity
        left = self.n_bytes - self.granted_bytes - kept * self.token_bytes
        return n_positions * self.token_bytes <= left

    def grant(self, n_positions: int, *, keeping: KeptPrefix | None = None) -> bool:
        """Grant positions, or change nothing and return False."""
        if not self.has_room(n_positions, keeping=keeping):
            return False
        while n_positions * self.token_bytes > self.free_bytes:
            self._drop_oldest(keeping)
        self._granted += n_positions
        return True

    def grant_free(self, n_positions: int) -> bool:
        """Grant positions from what is neither granted nor kept; False if too many."""
        if n_positions * self.token_bytes > self.free_bytes:
            return False
        self._granted += n_positions
        return True

    def release(self, n_positions: int) -> None:
        """Take back positions that were granted."""
        if n_positions > self._granted:
            raise ValueError(f"{n_positions} of {self._granted} positions released")
        self._granted -= n_positions

    def keep(self, prefix: KeptPrefix) -> bool:
        """Keep an ended sequence's cache, whose grant was released; False if not."""
        if not self.store.is_new(prefix.client, prefix.tokens):
            return False
        if prefix.capacity * self.token_bytes > self.free_bytes:
            return False
        self.store.add(prefix)
        while len(self.store) > self._max_kept:
            self._drop_oldest(None)
        return True

    def take_over(self, prefix: KeptPrefix) -> None:
        """Turn a kept prefix into a grant of its capacity: a sequence goes on in it."""
        self.store.remove(prefix)
        self._granted += prefix.capacity

    def _drop_oldest(self, keeping: KeptPrefix | None) -> None:
        for prefix in self.store:
            if prefix is not keeping:
                self.store.remove(prefix)
                return
        raise ValueError("nothing is kept that could give way")
