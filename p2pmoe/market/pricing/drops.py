"""What failure domains gave up by themselves lately.

Whoever drops a replica must not be paid more for the others of it: for as long as its
domain had held the expert, 7 days at most, the domain counts for the prices with the
most that it held, as long as it is there at all (`holdings.py` says when). What the
market took from it is not held against it. As long as it had been held, since else a
minute's holding of everything would keep the prices of others down for a week.

A drop is (expert, domain, until when it counts, what the domain held, per mille). Of
one expert and domain a few are kept: one counts unless a larger one counts as long. At
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
    until_us: int
    permille: int


class Drops:
    """Falls of one model's holdings; `version` counts changes."""

    def __init__(self, drops: Iterable[Drop] = ()) -> None:
        self.version = 0
        self._steps: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for drop in drops:
            self.note(drop)

    def __len__(self) -> int:
        return len(self._steps)

    def note(self, drop: Drop) -> None:
        """Remember a fall, unless a larger one counts as long anyway."""
        key = (drop.expert, drop.domain)
        steps = self._steps.pop(key, [])
        if not any(p >= drop.permille and u >= drop.until_us for p, u in steps):
            steps = [s for s in steps if s[0] > drop.permille or s[1] > drop.until_us]
            steps = [*steps, (drop.permille, drop.until_us)]
            steps = sorted(steps, reverse=True)[:_MAX_STEPS]
        self._steps[key] = steps
        while len(self._steps) > _MAX_PAIRS:
            del self._steps[next(iter(self._steps))]
        self.version += 1

    def forget(self, expert: int, domain: str) -> None:
        """Hold nothing against a domain any more: the market itself took the rest."""
        if self._steps.pop((expert, domain), None) is not None:
            self.version += 1

    def prune(self, now_us: int) -> None:
        """Forget what counts no more."""
        for key, steps in list(self._steps.items()):
            fresh = [step for step in steps if step[1] > now_us]
            if not fresh:
                del self._steps[key]
            elif len(fresh) < len(steps):
                self._steps[key] = fresh
            else:
                continue
            self.version += 1

    def largest(self) -> Iterator[tuple[int, str, int]]:
        """Yield expert, domain and the most that counts of it, per mille."""
        for (expert, domain), steps in self._steps.items():
            yield expert, domain, steps[0][0]

    def __iter__(self) -> Iterator[Drop]:
        """Yield all that is remembered, to be written down."""
        for (expert, domain), steps in self._steps.items():
            for permille, until_us in steps:
                yield Drop(expert, domain, until_us, permille)
