"""One wanted expert: who holds it now, and how badly each class of device needs it.

Rules of the order (a smaller rank is given out first):

    group 0   below its floor: no disk stands behind it        rarest first
    group 1   below its target                                 by class, see below
    group 2   at its target, one spare replica for failover    fewest replicas first
    group 3   at hand in the backbone's own memory             last of all

Within group 1 a hub takes what hubs hold least, hottest first; a laptop the rarest
against target, hottest first, which is the middle once hubs hold the top; a phone or a
browser the tail: only experts of at most median demand, coldest first, and never one
that it alone would hold unless the backbone's disk stands behind it.

For all but hubs, demands within a factor of two count as alike. Ties go by layer, then
by expert, in an order of hashes that nobody can foresee: so no one can choose to corner
an expert, and a device with room for several gets those of one layer, which are needed
at the same time: a backbone then asks fewer workers in a layer, and waits for fewer.

Source: design/06, "Assignment".
"""

import math
from dataclasses import dataclass, field
from enum import IntEnum

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.coverage import FULL_PERMILLE, DomainCoverage, is_met
from p2pmoe.market.devices import Device, ExpertKey

__all__ = ["Group", "Order", "Rank", "Wanted", "WantedState", "order_of", "rank"]

Rank = tuple[int, float, float, int]  # group, fullness, demand order, hash


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


def order_of(device_class: DeviceClass) -> Order:
    """Return the order in which a device of this class is offered experts."""
    return _ORDERS[device_class]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a backbone wants of one expert. Demand is a multiple of the mean."""

    key: ExpertKey
    n_bytes: int
    demand: float
    target: int
    floor: int
    at_hand: bool
    in_tail: bool  # demand at most the median of what is not at hand


@dataclass(slots=True, kw_only=True, eq=False)
class WantedState:
    """A wanted expert with its replicas counted.

    `version` counts changes; `stamps` has, for each order, the version at which the
    expert's entry in that order's heap was made, -1 if it has none.
    """

    wanted: Wanted
    tie: int
    coverage: DomainCoverage = field(default_factory=DomainCoverage)
    by_hubs: DomainCoverage = field(default_factory=DomainCoverage)
    n_replicas: int = 0
    n_mobile: int = 0
    version: int = 0
    stamps: list[int] = field(default_factory=lambda: [-1] * len(Order))

    def add(self, device: Device) -> None:
        """Count the device as a holder."""
        self.coverage.add(device.domain, device.availability)
        if device.device_class is DeviceClass.HUB:
            self.by_hubs.add(device.domain, device.availability)
        self.n_replicas += 1
        self.n_mobile += device.device_class.is_mobile

    def remove(self, device: Device) -> None:
        """Count the device no longer."""
        self.coverage.remove(device.domain, device.availability)
        if device.device_class is DeviceClass.HUB:
            self.by_hubs.remove(device.domain, device.availability)
        self.n_replicas -= 1
        self.n_mobile -= device.device_class.is_mobile

    @property
    def allows_mobile(self) -> bool:
        """Whether a phone or a browser may hold it: it is never the only holder."""
        backed = self.wanted.floor == 0 or self.wanted.at_hand
        return backed or self.n_replicas > self.n_mobile


def rank(state: WantedState, order: Order) -> Rank | None:
    """Return where the expert stands in this order, None if it needs no more."""
    wanted = state.wanted
    if order is Order.TAIL and not (wanted.in_tail and state.allows_mobile):
        return None
    urgency = _at_hand(state) if wanted.at_hand else _away(state, order)
    if urgency is None:
        return None
    if order is Order.HUB:
        return (*urgency, -wanted.demand, state.tie)
    _, heat = math.frexp(wanted.demand)
    return (*urgency, heat if order is Order.TAIL else -heat, state.tie)


def _at_hand(state: WantedState) -> tuple[int, float] | None:
    most = max(1, state.wanted.floor)
    if state.n_replicas >= most:
        return None
    return (Group.AT_HAND, state.n_replicas / most)


def _away(state: WantedState, order: Order) -> tuple[int, float] | None:
    wanted = state.wanted
    covered = state.coverage.permille
    if not is_met(covered, wanted.floor) and state.n_replicas < 2 * wanted.floor:
        return (Group.BELOW_FLOOR, covered / wanted.floor)
    fullness = _below_target(state, order)
    if fullness is not None:
        return (Group.BELOW_TARGET, fullness)
    most = wanted.target + 1
    if state.n_replicas < most:
        return (Group.SPARE, state.n_replicas / most)
    return None


def _below_target(state: WantedState, order: Order) -> float | None:
    """Return the fullness that this order goes by, None at target."""
    target = state.wanted.target
    if order is Order.HUB:
        by_hubs = state.by_hubs.permille
        if is_met(by_hubs, target) or state.n_replicas > 2 * target:
            return None
        return by_hubs / (FULL_PERMILLE * target)
    # Copies in one domain add no coverage: twice the target ends the search for it.
    if is_met(state.coverage.permille, target) or state.n_replicas >= 2 * target:
        return None
    if order is Order.TAIL:
        return state.n_mobile / target
    return state.coverage.permille / (FULL_PERMILLE * target)
