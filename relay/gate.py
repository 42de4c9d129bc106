"""Who may knock how often: decided before TLS, by address. No I/O in here.

| limit                                  | new connections              |
|----------------------------------------|------------------------------|
| all together                           | 65/s, burst 20               |
| one address (IPv4, IPv6 /64)           | 5/s, burst 20, 32 unproven   |
| one address, in the lane for tickets   | 50 unproven or failed, 10/s  |
| one peer, in the lane for tickets      | 5, then one in 5 s           |

All together: no second sees more than 100 joins, also when some handshakes take longer
than others. Phones behind one carrier share an address, so what is above an address's
own rate may go on in a lane for those that come back: a few at once, closed before the
WebSocket handshake unless they show a resume ticket (`relay.tickets`). Each takes a
place in the lane that only a proof of the ticket's id gives back at once; what fails
there fills the lane of its own address. Where all places are taken, the address that
holds most gives one up: one that dawdles there keeps nobody else out.

A front's connections are counted at the address that the front names, once it is read
(`settle`). Those of this host have a limit like that of all together for themselves:
who watches the relay, and its market, get in whoever else knocks.
"""

import enum
import ipaddress
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from relay.keys import PeerId
from relay.limits import Bucket

__all__ = [
    "AddressGate",
    "GateLimits",
    "Lane",
    "Origin",
    "Pass",
    "address_key",
    "crowded_out",
]

_MAX_BUCKETS: Final = 10_000


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
    """New connections per second, bursts, and how many may be unproven at once."""

    per_address_s: float = 5.0
    per_address_burst: float = 20.0
    per_address_open: int = 32
    all_s: float = 65.0
    all_burst: float = 20.0
    lane_address_s: float = 10.0
    lane_address_burst: float = 50.0
    lane_open: int = 32
    lane_peer_s: float = 0.2
    lane_peer_burst: float = 5.0


class Origin(enum.Enum):
    """Whose a new connection is, by its address."""

    PEER = enum.auto()
    LOCAL = enum.auto()  # of this host
    FRONT = enum.auto()  # of a front that names the peer's address


class Lane(enum.Enum):
    """By which of the gate's rules a connection came in."""

    FREE = enum.auto()  # counted at no address
    OPEN = enum.auto()  # within its address's rate
    TICKET = enum.auto()  # above it: only with a ticket


def _nothing() -> None:
    """Stand in until somebody serves the connection."""


@dataclass(slots=True, kw_only=True, eq=False)
class Pass:
    """A connection's right to go on, and the places that it holds.

    `settled`: false until a front's connection has been counted. `give_way` is called
    when its place in the lane goes to another address: it must end, and leave at once.
    """

    lane: Lane = Lane.FREE
    address: str = ""
    settled: bool = True
    give_way: Callable[[], None] = _nothing

    @property
    def needs_ticket(self) -> bool:
        """Whether it must show a ticket before the WebSocket handshake."""
        return self.lane is Lane.TICKET


def crowded_out(in_flight: Sequence[str], newcomer: str) -> int | None:
    """Return which handshake gives way where all places are taken; None: none does.

    `in_flight`: whose each one is, by `address_key`, the oldest first. The oldest of
    the address that has most goes, if that has at least two more than the newcomer's:
    a few addresses that dawdle do not keep all others out.
    """
    counted = Counter(in_flight)
    if not counted:
        return None
    fattest, most = counted.most_common(1)[0]
    if most < counted[newcomer] + 2:
        return None
    return in_flight.index(fattest)


class _Buckets:
    """One bucket a key, made on first use; full ones are forgotten when many are."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets: dict[Hashable, Bucket] = {}

    def of(self, key: Hashable, now: float) -> Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= _MAX_BUCKETS:
                self._forget_idle(now)
            bucket = self._buckets[key] = Bucket(self._rate, self._burst, now)
        return bucket

    def _forget_idle(self, now: float) -> None:
        idle = [key for key, bucket in self._buckets.items() if bucket.is_full(now)]
        # All busy: an attack from many addresses; the common limit holds it.
        for key in idle or list(self._buckets)[: _MAX_BUCKETS // 10]:
            del self._buckets[key]


class AddressGate:
    """Decides before TLS whether a connection may go on.

    A connection that got in holds its places until `leave`, which is called once it is
    authenticated, is a page's, or has ended.
    """

    def __init__(self, limits: GateLimits, now: float) -> None:
        self._limits = limits
        self._all = Bucket(limits.all_s, limits.all_burst, now)
        self._local = Bucket(limits.all_s, limits.all_burst, now)
        self._addresses = _Buckets(limits.per_address_s, limits.per_address_burst)
        self._lanes = _Buckets(limits.lane_address_s, limits.lane_address_burst)
        self._peers = _Buckets(limits.lane_peer_s, limits.lane_peer_burst)
        self._open: dict[str, int] = {}
        self._lane: dict[Pass, None] = {}  # who is in it, the oldest first

    def enter(self, address: str, origin: Origin, now: float) -> Pass | None:
        """Return the pass of a new connection, or None: close it at once."""
        if origin is Origin.FRONT:
            return Pass(settled=False)
        if origin is Origin.LOCAL:
            return Pass() if self._local.try_take(1, now) else None
        return self._count(address, now)

    def settle(self, admitted: Pass, address: str | None, now: float) -> bool:
        """Count a front's connection at the address that the front names, if any.

        False: above the limits; answer it and close. No-op for any other connection.
        """
        if admitted.settled:
            return True
        found = self._count(address, now)
        if found is None:
            return False
        admitted.lane, admitted.address = found.lane, found.address
        admitted.settled = True
        if found in self._lane:
            del self._lane[found]
            self._lane[admitted] = None
        return True

    def show_ticket(self, peer_id: PeerId, now: float) -> bool:
        """Tell whether the holder of a valid ticket may use the lane so often."""
        return self._peers.of(peer_id, now).try_take(1, now)

    def leave(self, admitted: Pass, *, proven: bool, now: float) -> None:
        """Give the places back; `proven`: it showed the ticket and proved its id."""
        address = admitted.address
        lane, admitted.lane = admitted.lane, Lane.FREE
        if lane is Lane.OPEN:
            left = self._open[address] - 1
            if left:
                self._open[address] = left
            else:
                del self._open[address]
        elif lane is Lane.TICKET:
            self._lane.pop(admitted, None)
            if proven:
                self._lanes.of(address, now).give_back(1)

    def _count(self, address: str | None, now: float) -> Pass | None:
        if not self._all.try_take(1, now):
            return None
        if address is None:
            return Pass()
        found = self._at(address_key(address), now)
        if found is None:
            self._all.give_back(1)
        return found

    def _at(self, key: str, now: float) -> Pass | None:
        """Take the places of one more connection of this address."""
        n_open = self._open.get(key, 0)
        has_place = n_open < self._limits.per_address_open
        if has_place and self._addresses.of(key, now).try_take(1, now):
            self._open[key] = n_open + 1
            return Pass(lane=Lane.OPEN, address=key)
        bucket = self._lanes.of(key, now)
        if not bucket.try_take(1, now):
            return None
        if not self._has_lane_for(key):
            bucket.give_back(1)
            return None
        found = Pass(lane=Lane.TICKET, address=key)
        self._lane[found] = None
        return found

    def _has_lane_for(self, key: str) -> bool:
        """Tell whether the lane has a place, if need be one that another gives up."""
        if len(self._lane) < self._limits.lane_open:
            return True
        inside = list(self._lane)
        at = crowded_out([each.address for each in inside], key)
        if at is None:
            return False
        del self._lane[inside[at]]
        inside[at].give_way()
        return True
