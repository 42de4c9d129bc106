"""What failure domains gave up by themselves in the last 7 days.

Whoever drops a replica must not be paid more for the others of it: until 7 days have
gone by, its domain counts for the prices with the most that it held of the expert, as
long as the domain is there at all (`holdings.py` says when). What the market took from
it is not held against it.

A drop is (expert, domain, when, what the domain held until then, per mille). Of one
expert and domain a few are kept: an older one counts only while it is the larger. At
most 131,072 pairs are kept for a model, the ones dropped first are forgotten first.

Pure. Source: ADR 49.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["WINDOW_US", "Drop", "Drops"]

WINDOW_US = 7 * 86_400_000_000
_MAX_PAIRS = 1 << 17
_MAX_STEPS = 8  # of one pair; further ones replace the smallest


class Drop(NamedTuple):
    """One remembered fall of what a domain held of an expert."""

    expert: int  # packed
    domain: str
    at_us: int
    permille: int


class Drops:
    """Falls of one model's holdings; `version` counts changes."""

    def __init__(self, drops: Iterable[Drop] = ()) -> None:
        self.version = 0
        self._steps: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for drop in sorted(drops, key=lambda each: each.at_us):
            self.note(drop)

    def __len__(self) -> int:
        return len(self._steps)

    def note(self, drop: Drop) -> None:
        """Remember what a domain held until now of an expert."""
        key = (drop.expert, drop.domain)
        larger = [s for s in self._steps.pop(key, []) if s[1] > drop.permille]
        self._steps[key] = [*larger[: _MAX_STEPS - 1], (drop.at_us, drop.permille)]
        while len(self._steps) > _MAX_PAIRS:
            del self._steps[next(iter(self._steps))]
        self.version += 1

    def forget(self, expert: int, domain: str) -> None:
        """Hold nothing against a domain any more: the market itself took the rest."""
        if self._steps.pop((expert, domain), None) is not None:
            self.version += 1

    def prune(self, now_us: int) -> None:
        """Forget what is older than 7 days."""
        oldest_us = now_us - WINDOW_US
        for key, steps in list(self._steps.items()):
            fresh = [step for step in steps if step[0] > oldest_us]
            if not fresh:
                del self._steps[key]
            elif len(fresh) < len(steps):
                self._steps[key] = fresh
            else:
                continue
            self.version += 1

    def largest(self) -> Iterator[tuple[int, str, int]]:
        """Yield expert, domain and the most that the domain held of it, per mille."""
        for (expert, domain), steps in self._steps.items():
            yield expert, domain, steps[0][1]

    def __iter__(self) -> Iterator[Drop]:
        """Yield all that is remembered, to be written down."""
        for (expert, domain), steps in self._steps.items():
            for at_us, permille in steps:
                yield Drop(expert, domain, at_us, permille)
