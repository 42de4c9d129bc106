"""How much a peer may send and hold. No I/O in here.

| rate class | bytes/s | burst  | frames/s | interactive queue |
|------------|---------|--------|----------|-------------------|
| phone      | 2 MiB   | 1 MiB  | 2,000    | 256 KiB           |
| laptop     | 8 MiB   | 2 MiB  | 2,000    | 256 KiB           |
| hub        | 64 MiB  | 8 MiB  | 20,000   | 4 MiB             |

A bucket goes into debt and tells how long to wait: only the peer's own reads wait. Who
may knock how often is `relay.gate`'s.
"""

from dataclasses import dataclass
from typing import Final

from relay.defaults import (
    CONTROL_QUEUE_BYTES,
    MAX_TTL_MS,
    PING_INTERVAL_S,
    PING_JITTER_S,
    PING_TIMEOUT_S,
    QUEUE_BYTES,
)
from relay.frame_types import Limits
from relay.frames import MAX_PAYLOAD_BYTES
from relay.queues import LaneCaps
from relay.tokens import RateClass

__all__ = [
    "Bucket",
    "KeepAlive",
    "keep_alive_of",
    "lane_caps",
    "limits_of",
]

_MIB: Final = 1024 * 1024
_RATES: Final = {
    RateClass.PHONE: (2 * _MIB, 1 * _MIB, 2_000, QUEUE_BYTES),
    RateClass.LAPTOP: (8 * _MIB, 2 * _MIB, 2_000, QUEUE_BYTES),
    RateClass.HUB: (64 * _MIB, 8 * _MIB, 20_000, 16 * QUEUE_BYTES),
}


def limits_of(rate_class: RateClass) -> Limits:
    """Return what a peer of this class is told in its WELCOME."""
    bytes_s, burst, frames_s, queue_bytes = _RATES[rate_class]
    return Limits(
        max_payload=MAX_PAYLOAD_BYTES,
        bytes_s=bytes_s,
        burst=burst,
        frames_s=frames_s,
        queue_bytes=queue_bytes,
        max_ttl_ms=MAX_TTL_MS,
        lease_s=0,
    )


def lane_caps(limits: Limits) -> LaneCaps:
    """Return the caps of the queue in front of a peer with these limits."""
    scale = max(1, limits.queue_bytes // QUEUE_BYTES)
    return LaneCaps(
        control=CONTROL_QUEUE_BYTES * min(scale, 4),
        interactive=limits.queue_bytes,
        bulk=limits.queue_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepAlive:
    """After how much silence a peer is pinged, and how long it may then be silent."""

    after_s: float = PING_INTERVAL_S
    timeout_s: float = PING_TIMEOUT_S


def keep_alive_of(rate_class: RateClass, jitter: float) -> KeepAlive:
    """Return a peer's own times; `jitter` in [0, 1) spreads them over +-3 s.

    Phones sleep between their radio's moments and get 25 s and 20 s.
    """
    spread_s = (2 * jitter - 1) * PING_JITTER_S
    if rate_class is RateClass.PHONE:
        return KeepAlive(after_s=25.0 + spread_s, timeout_s=20.0)
    return KeepAlive(after_s=PING_INTERVAL_S + spread_s)


class Bucket:
    """A token bucket that may go into debt."""

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = now

    def take(self, amount: float, now: float) -> float:
        """Take `amount` in any case; return the seconds to wait, 0 if none."""
        level = self._level + (now - self._at) * self._rate
        level = (min(self._burst, level)) - amount
        self._level = level
        self._at = now
        return 0.0 if level >= 0 else -level / self._rate

    def try_take(self, amount: float, now: float) -> bool:
        """Take `amount` if it is there."""
        level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        self._level = level - amount if level >= amount else level
        return level >= amount

    def give_back(self, amount: float) -> None:
        """Undo a take; never more than the burst."""
        self._level = min(self._burst, self._level + amount)

    def change(self, rate: float, burst: float, now: float) -> None:
        """Go on by another rate; what there is stays, up to the new burst."""
        self.take(0, now)
        self._rate = rate
        self._burst = burst
        self._level = min(burst, self._level)

    def is_full(self, now: float) -> bool:
        """Tell whether nothing was taken for long: the bucket may be forgotten."""
        return self._level + (now - self._at) * self._rate >= self._burst
