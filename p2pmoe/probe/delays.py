"""Delays as percentiles and as a histogram. Pure; every number is in seconds.

The histogram's steps are 1, 2, 5 of each decade from 0.1 ms to 1 s, so that one picture
holds a relay on loopback and one that is overloaded on the other side of the world.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Bucket", "histogram", "percentile", "queue_delays"]

_EDGES_MS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """How many delays lie in [from_ms, to_ms); the last one has no end (infinity)."""

    from_ms: float
    to_ms: float
    count: int

    @property
    def label(self) -> str:
        """The range in words."""
        if math.isinf(self.to_ms):
            return f"{self.from_ms:g} ms or more"
        return f"below {self.to_ms:g} ms"


def percentile(delays: Sequence[float], share: float) -> float:
    """Return the delay that `share` of all do not exceed (nearest rank; 0: the least).

    Raises:
        ValueError: there are no delays, or `share` is not 0 to 1.
    """
    if not delays or not 0 <= share <= 1:
        raise ValueError(f"no percentile {share} of {len(delays)} delays")
    return sorted(delays)[max(1, math.ceil(share * len(delays))) - 1]


def queue_delays(round_trips: Sequence[float]) -> list[float]:
    """Return what each round trip took above the shortest: time spent in queues."""
    shortest = min(round_trips, default=0.0)
    return [each - shortest for each in round_trips]


def histogram(delays: Sequence[float]) -> list[Bucket]:
    """Count the delays by range, from the first that has any to the last."""
    counts = [0] * (len(_EDGES_MS) + 1)
    for delay in delays:
        counts[_index(delay * 1000)] += 1
    used = [at for at, count in enumerate(counts) if count]
    if not used:
        return []
    edges = (0.0, *_EDGES_MS, math.inf)
    return [
        Bucket(from_ms=edges[at], to_ms=edges[at + 1], count=counts[at])
        for at in range(used[0], used[-1] + 1)
    ]


def _index(delay_ms: float) -> int:
    for at, edge in enumerate(_EDGES_MS):
        if delay_ms < edge:
            return at
    return len(_EDGES_MS)
