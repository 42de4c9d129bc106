"""One wanted expert: who holds it now, and how badly each class of device needs it.

Rules of the order (a smaller rank is given out first):

    group 0   below its floor: no disk stands behind it        soonest lost first
    group 1   below its target                                 by class, see below
    group 2   at its target, spare replicas for failover       fewest replicas first
    group 3   at hand in the backbone's own memory             last of all

Group 0 is the repair queue: what nobody holds comes first, then by the time to its
loss, taken for the sum of its holders' stays: a further holder never makes it more
urgent. Room that nothing else wants takes spare replicas: one, so that another worker
can be asked at once; two of what no disk stands behind, so that its floor stands while
many leave and others still fetch. What has twice the copies that it needs, all in too
few domains, is no more than a spare, for a device elsewhere: fifty identities behind
one address neither use up a floor nor keep others from it.

Within group 1 a hub takes what hubs hold least, hottest first; a laptop the rarest
against target, hottest first, which is the middle once hubs hold the top; a phone or a
browser the tail: only experts of at most median demand, coldest first, and never one
that it alone would hold unless the backbone's disk stands behind it.

For all but hubs, demands within a factor of two count as alike. Ties go by layer, then
by expert, in an order of hashes that nobody can foresee: so no one can choose to corner
an expert, and a device with room for several gets those of one layer, which are needed
at the same time: a backbone then asks fewer workers in a layer, and waits for fewer.

`urgency_of` is asked some four million times for a million devices: what does not
change with the holders is computed once, when the expert becomes wanted, and lies in
the state itself, since each further object is a miss of the cache.

Source: design/06, "Assignment".
"""

import math
from dataclasses import dataclass
from enum import IntEnum

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.coverage import MAX_TARGET, DomainCoverage, met_permille
from p2pmoe.market.devices import Device, ExpertKey

__all__ = [
    "Group",
    "Order",
    "Rank",
    "Wanted",
    "WantedState",
    "group_of",
    "order_of",
    "rank",
    "urgency_of",
]

Rank = tuple[float, int]  # group + fullness within it; place among equals


class Order(IntEnum):
    """The three orders in which experts are given out."""

    HUB = 0
    LAPTOP = 1
    TAIL = 2


class Group(IntEnum):
    """How urgent a replica is, most urgent first."""

    BELOW_FLOOR = 0
    BELOW_TARGET = 1
    SPARE = 2
    AT_HAND = 3


_ORDERS = (Order.HUB, Order.LAPTOP, Order.TAIL, Order.TAIL)  # by device class
_HUB, _TAIL = Order.HUB, Order.TAIL
_FLOOR, _TARGET, _SPARE, _AT_HAND = (float(group) for group in Group)
# Fullness within a group lies below 4 (twice the target, and a mobile share of it):
# a quarter of it never reaches the next group, and a power of two keeps its order.
_FULLNESS = 0.25
_SPARES, _SPARES_OF_FLOOR = 1, 2
_TIE_BITS = 64
_DEMAND_STEPS = 1 << 20  # in the mean demand: what hubs tell apart
_HUB_CLASS = DeviceClass.HUB
_HALF_LOST_S = 3_600.0  # maps a time to loss into [0, 1)
# By target, so that all experts share the numbers.
_MET_PERMILLE = tuple(met_permille(target) for target in range(MAX_TARGET + 1))


def order_of(device_class: DeviceClass) -> Order:
    """Return the order in which a device of this class is offered experts."""
    return _ORDERS[device_class]


def group_of(found: Rank) -> Group:
    """Return the group that a rank lies in."""
    return Group(int(found[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a backbone wants of one expert. Demand is a multiple of the mean.

    `target` and `floor` are at most `MAX_TARGET`.
    """

    key: ExpertKey
    n_bytes: int
    demand: float
    target: int
    floor: int
    at_hand: bool
    in_tail: bool  # demand at most the median of what is not at hand


class WantedState:
    """A wanted expert with its replicas counted.

    `version` counts changes, of holders and of what is wanted alike. `lost_in_s`: the
    sum of its holders' expected stays, after which nobody may hold it any more.
    `most`: replicas with the spare ones.
    """

    __slots__ = (
        "at_hand",
        "by_hubs",
        "coverage",
        "floor",
        "in_tail",
        "key",
        "lost_in_s",
        "met_floor",
        "met_target",
        "most",
        "n_bytes",
        "n_mobile",
        "n_replicas",
        "places",
        "target",
        "tie",
        "version",
        "wanted",
    )

    def __init__(self, *, wanted: Wanted, tie: int) -> None:
        self.tie = tie
        self.coverage = DomainCoverage()
        self.by_hubs = DomainCoverage()
        self.n_replicas = 0
        self.n_mobile = 0
        self.lost_in_s = 0
        self.version = 0
        self.want(wanted)

    def want(self, wanted: Wanted) -> None:
        """Replace what is wanted of it."""
        self.wanted, self.key = wanted, wanted.key
        self.n_bytes = wanted.n_bytes
        self.at_hand, self.in_tail = wanted.at_hand, wanted.in_tail
        self.floor, self.target = wanted.floor, wanted.target
        self.met_floor = _MET_PERMILLE[wanted.floor]
        self.met_target = _MET_PERMILLE[wanted.target]
        self.most = wanted.target + (_SPARES_OF_FLOOR if wanted.floor else _SPARES)
        _, heat = math.frexp(wanted.demand)
        hottest = -round(wanted.demand * _DEMAND_STEPS)
        self.places = tuple(  # by order
            place << _TIE_BITS | self.tie for place in (hottest, -heat, heat)
        )

    def add(self, device: Device) -> None:
        """Count the device as a holder."""
        self.coverage.add(device.domain, device.availability)
        if device.device_class is _HUB_CLASS:
            self.by_hubs.add(device.domain, device.availability)
        elif device.is_mobile:
            self.n_mobile += 1
        self.n_replicas += 1
        self.lost_in_s += device.stay_s

    def remove(self, device: Device) -> None:
        """Count the device no longer."""
        self.coverage.remove(device.domain, device.availability)
        if device.device_class is _HUB_CLASS:
            self.by_hubs.remove(device.domain, device.availability)
        elif device.is_mobile:
            self.n_mobile -= 1
        self.n_replicas -= 1
        self.lost_in_s -= device.stay_s

    @property
    def allows_mobile(self) -> bool:
        """Whether a phone or a browser may hold it: it is never the only holder."""
        backed = self.floor == 0 or self.at_hand
        return backed or self.n_replicas > self.n_mobile

    @property
    def is_below_floor(self) -> bool:
        """Whether more replicas are needed whatever the demand is."""
        return self.coverage.permille < self.met_floor and not self.at_hand


def rank(state: WantedState, order: Order) -> Rank | None:
    """Return where the expert stands in this order, None if it needs no more."""
    urgency = urgency_of(state, order)
    return None if urgency is None else (urgency, state.places[order])


def urgency_of(state: WantedState, order: Order) -> float | None:
    """Return the rank's first part alone, None if the expert needs no more."""
    if order is _TAIL and not (state.in_tail and state.allows_mobile):
        return None
    if state.at_hand:
        return _at_hand(state)
    covered, n_replicas = state.coverage.permille, state.n_replicas
    if covered < state.met_floor and n_replicas < 2 * state.floor:
        return _FLOOR + state.lost_in_s / (state.lost_in_s + _HALF_LOST_S)
    if order is _HUB:
        by_hubs = state.by_hubs.permille
        if by_hubs < state.met_target and n_replicas <= 2 * state.target:
            return _TARGET + _FULLNESS * by_hubs / state.met_target
    # Copies in one domain add no coverage: above twice the target it is a spare.
    elif covered < state.met_target and n_replicas < 2 * state.target:
        is_tail = order is _TAIL
        full = state.n_mobile / state.target if is_tail else covered / state.met_target
        return _TARGET + _FULLNESS * full
    return _spare(state)


def _at_hand(state: WantedState) -> float | None:
    most = max(1, state.floor)
    if state.n_replicas >= most:
        return None
    return _AT_HAND + _FULLNESS * state.n_replicas / most


def _spare(state: WantedState) -> float | None:
    if state.n_replicas < state.most:
        return _SPARE + _FULLNESS * state.n_replicas / state.most
    covered, short_of = state.coverage.permille, max(state.met_floor, state.met_target)
    if covered < short_of:
        return _SPARE + _FULLNESS * (1.0 + covered / short_of)
    return None
