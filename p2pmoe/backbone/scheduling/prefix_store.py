"""Keys and values of ended sequences, found again by content: token ids and client.

What is found is the longest common prefix of the tokens asked for and of any kept
sequence of the same client, never of another's, whatever place its memory has (fault
B16). A sequence that is a prefix of another kept one is not kept beside it. Only
complete sequences are put in: that is the schedule's to see to. Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from p2pmoe.model.kv_cache import KvCache

__all__ = ["KeptPrefix", "PrefixStore", "n_common"]

Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptPrefix:
    """A cache, and the tokens whose keys and values it holds, all of them."""

    client: str
    tokens: Tokens
    cache: KvCache

    @property
    def capacity(self) -> int:
        """Positions that its memory has room for."""
        return self.cache.capacity


class PrefixStore:
    """Kept prefixes, least recently used first."""

    def __init__(self) -> None:
        """Begin empty."""
        self._kept: dict[KeptPrefix, None] = {}  # in order of use
        self.n_positions = 0

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._kept)

    def __iter__(self) -> Iterator[KeptPrefix]:
        """Iterate from the least recently used on; one may be removed, then stop."""
        return iter(self._kept)

    def find(self, client: str, tokens: Tokens) -> tuple[KeptPrefix, int] | None:
        """Return the kept sequence that has most in common, and how many tokens.

        None if there is none of this client, or the first token differs in all.
        """
        best: tuple[KeptPrefix, int] | None = None
        for prefix in self._kept:
            if prefix.client == client:
                n = n_common(prefix.tokens, tokens)
                if n > (0 if best is None else best[1]):
                    best = prefix, n
        return best

    def use(self, prefix: KeptPrefix) -> None:
        """Make it the most recently used."""
        self._kept[prefix] = self._kept.pop(prefix)

    def is_new(self, client: str, tokens: Tokens) -> bool:
        """Whether no kept sequence of the client has all of these; it is used if so."""
        found = self.find(client, tokens)
        if found is None or found[1] < len(tokens):
            return True
        self.use(found[0])
        return False

    def add(self, prefix: KeptPrefix) -> None:
        """Keep one; others of the client that it goes on from are dropped."""
        for other in list(self._kept):
            if other.client == prefix.client:
                n = n_common(other.tokens, prefix.tokens)
                if n == len(other.tokens):
                    self.remove(other)
        self._kept[prefix] = None
        self.n_positions += prefix.capacity

    def remove(self, prefix: KeptPrefix) -> None:
        """Drop one."""
        del self._kept[prefix]
        self.n_positions -= prefix.capacity


def n_common(a: Tokens, b: Tokens) -> int:
    """Return how many first tokens are the same."""
    n = min(len(a), len(b))
    if n == 0 or a[0] != b[0]:
        return 0
    differ = np.flatnonzero(a[:n] != b[:n])
    return int(differ[0]) if len(differ) else n
