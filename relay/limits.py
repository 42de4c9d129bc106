"""How much a peer may send and hold, and who may knock how often. No I/O in here.

| rate class | bytes/s | burst  | frames/s | interactive queue |
|------------|---------|--------|----------|-------------------|
| phone      | 2 MiB   | 1 MiB  | 2,000    | 256 KiB           |
| laptop     | 8 MiB   | 2 MiB  | 2,000    | 256 KiB           |
| hub        | 64 MiB  | 8 MiB  | 20,000   | 4 MiB             |

A bucket goes into debt and tells how long to wait: only the peer's own reads wait. New
connections are limited by address before TLS (IPv4 address, IPv6 /64), and in all.
Loopback is this host or a front on it: only the common limit holds for it.
"""

import ipaddress
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
from relay.endpoint import is_loopback
from relay.frame_types import Limits
from relay.frames import MAX_PAYLOAD_BYTES
from relay.queues import LaneCaps
from relay.tokens import RateClass

__all__ = [
    "AddressGate",
    "Bucket",
    "GateLimits",
    "KeepAlive",
    "address_key",
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
_MAX_ADDRESSES: Final = 10_000


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

    def is_full(self, now: float) -> bool:
        """Tell whether nothing was taken for long: the bucket may be forgotten."""
        return self._level + (now - self._at) * self._rate >= self._burst


def address_key(address: str) -> str:
    """Return what connections are counted by: an IPv4 address or an IPv6 /64."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLimits:
    """New connections per second, bursts, and how many may be unauthenticated."""

    per_address_s: float = 5.0
    per_address_burst: float = 20.0
    per_address_open: int = 32
    all_s: float = 100.0
    all_burst: float = 200.0


class AddressGate:
    """Decides before TLS whether a connection may go on.

    A connection that got in holds a place of its address until `leave`, which is called
    when it is authenticated or has ended.
    """

    def __init__(self, limits: GateLimits, now: float) -> None:
        self._limits = limits
        self._all = Bucket(limits.all_s, limits.all_burst, now)
        self._buckets: dict[str, Bucket] = {}
        self._open: dict[str, int] = {}

    def enter(self, address: str, now: float) -> bool:
        """Tell whether a new connection from this address may go on."""
        if not is_loopback(address):
            key = address_key(address)
            if self._open.get(key, 0) >= self._limits.per_address_open:
                return False
            if not self._bucket(key, now).try_take(1, now):
                return False
        if not self._all.try_take(1, now):
            return False
        if not is_loopback(address):
            key = address_key(address)
            self._open[key] = self._open.get(key, 0) + 1
        return True

    def leave(self, address: str) -> None:
        """Give the place back."""
        key = address_key(address)
        n_open = self._open.get(key, 0)
        if n_open > 1:
            self._open[key] = n_open - 1
        else:
            self._open.pop(key, None)

    def _bucket(self, key: str, now: float) -> Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= _MAX_ADDRESSES:
                self._forget_idle(now)
            limits = self._limits
            bucket = Bucket(limits.per_address_s, limits.per_address_burst, now)
            self._buckets[key] = bucket
        return bucket

    def _forget_idle(self, now: float) -> None:
        idle = [key for key, bucket in self._buckets.items() if bucket.is_full(now)]
        # All busy: an attack from many addresses; the common limit holds it.
        for key in idle or list(self._buckets)[: _MAX_ADDRESSES // 10]:
            del self._buckets[key]
