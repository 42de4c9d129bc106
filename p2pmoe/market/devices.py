"""Devices that hold experts: their class, failure domain, room, and sane bounds.

A device is one worker as the market sees it. Its class decides which experts it is
offered (hot ones to hubs, the tail to phones), its domain how far its replicas count
together. Its availability and its stay are its own as far as they have been measured
(`attendance.py`), its class's before. What a worker claims is refused unless it lies
within sane bounds: adverts of -1 or 2^64 bytes have been seen in the field (B15).

The domain is the network prefix from which a relay sees the worker; only where no relay
can tell (private networks) it is the name that the worker itself declares. So fifty
identities behind one address are one domain, whatever they call themselves.

Pure; availability is an integer per mille, so that sums never depend on their order.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NewType

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.errors import OfferRefused

__all__ = [
    "AVAILABILITY_PERMILLE",
    "MAX_DOMAIN_CHARS",
    "MAX_ON_PROBATION",
    "STAY_S",
    "Capacity",
    "Device",
    "ExpertKey",
    "check_capacity",
    "departures_of",
    "domain_of",
    "layer_of",
]

ExpertKey = NewType("ExpertKey", int)  # deployment number << 32 | packed expert id

MAX_DOMAIN_CHARS = 100
MAX_ON_PROBATION = 256  # experts, all of which one canary can ask for
_INDEX_BITS = 16  # of a packed expert id, below the layer
_DEPARTURES_S = 1_000_000_000  # departures are counted in so many seconds
_MAX_BYTES = 1 << 50  # 1 PiB
_MAX_RATE = 1 << 60
_MAX_LINK_BYTES_S = 1 << 44

# Share of time that a device of a class is there, until its own has been measured.
AVAILABILITY_PERMILLE: Mapping[DeviceClass, int] = {
    DeviceClass.HUB: 990,
    DeviceClass.LAPTOP: 900,
    DeviceClass.PHONE: 700,
    DeviceClass.BROWSER: 500,
}
# How long a device of a class stays each time, until its own has been measured.
STAY_S: Mapping[DeviceClass, float] = {
    DeviceClass.HUB: 30 * 86_400.0,
    DeviceClass.LAPTOP: 8 * 3_600.0,
    DeviceClass.PHONE: 3_600.0,
    DeviceClass.BROWSER: 600.0,
}


def layer_of(key: ExpertKey) -> int:
    """Return a number for the deployment's layer that an expert is of."""
    return key >> _INDEX_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a worker says it can give; nothing of it is believed for money."""

    memory_bytes: int
    disk_bytes: int
    rate_macs_s: int
    up_bytes_s: int
    down_bytes_s: int
    device_class: int
    domain: str


@dataclass(slots=True, kw_only=True, eq=False)
class Device:
    """One worker: its traits, and the experts that it is to hold.

    `departures`: how often it is expected to leave in 10^9 s of being there. A million
    of these fit into memory: what few devices need is made when they need it.
    """

    name: bytes  # the worker's peer id
    device_class: DeviceClass
    domain: str
    availability: int  # per mille
    room_bytes: int  # left for further experts
    departures: int = 0  # 0: as is usual for the class
    held: dict[ExpertKey, int] = field(default_factory=dict)  # key -> bytes
    declined: AbstractSet[ExpertKey] = frozenset()  # given back
    refuses: AbstractSet[int] = frozenset()  # deployments it does not accept
    on_probation: bool = False  # its checks are too few yet
    is_mobile: bool = field(init=False)
    stay_s: int = field(init=False)  # how long it is expected to stay each time

    def __post_init__(self) -> None:
        self.is_mobile = self.device_class.is_mobile
        if not self.departures:
            self.departures = departures_of(STAY_S[self.device_class])
        self.stay_s = _DEPARTURES_S // self.departures

    @property
    def is_full(self) -> bool:
        """Whether nothing more is given to it: no room, or enough for a newcomer."""
        if self.room_bytes <= 0:
            return True
        return self.on_probation and len(self.held) >= MAX_ON_PROBATION

    def count_as(self, domain: str, availability: int, departures: int) -> None:
        """Change what it counts as, while no expert counts it: `Assignment.restate`."""
        self.domain, self.availability = domain, availability
        self.departures, self.stay_s = departures, _DEPARTURES_S // departures

    def takes(self, key: ExpertKey) -> bool:
        """Whether the device could be asked to hold this expert as a further one."""
        if key in self.held or key in self.declined:
            return False
        return not self.refuses or key >> 32 not in self.refuses

    def decline(self, key: ExpertKey) -> None:
        """Note that the device has given an expert back."""
        self.declined = {*self.declined, key}

    def accept(self, deployment: int, *, accepted: bool) -> None:
        """Note whether the device takes experts of a deployment at all."""
        if accepted == (deployment not in self.refuses):
            return
        self.refuses = self.refuses ^ {deployment}


def domain_of(declared: str, prefix: str) -> str:
    """Return the failure domain of a worker: what a relay saw before what it says."""
    return f"net {prefix}" if prefix else declared


def departures_of(stay_s: float) -> int:
    """Return how often a device leaves in 10^9 s that stays so long each time."""
    return max(1, round(_DEPARTURES_S / max(stay_s, 1.0)))


def check_capacity(capacity: Capacity) -> DeviceClass:
    """Return the device's class if every claim lies within sane bounds (B15).

    Raises:
        OfferRefused: a value is negative, absurd, or of an unknown class.
    """
    bounds = {
        "memory_bytes": _MAX_BYTES,
        "disk_bytes": _MAX_BYTES,
        "rate_macs_s": _MAX_RATE,
        "up_bytes_s": _MAX_LINK_BYTES_S,
        "down_bytes_s": _MAX_LINK_BYTES_S,
    }
    for name, most in bounds.items():
        value = getattr(capacity, name)
        if not 0 <= value <= most:
            raise OfferRefused(f"{name} {value} is not within 0..{most}")
    if len(capacity.domain) > MAX_DOMAIN_CHARS or not capacity.domain.isprintable():
        raise OfferRefused(f"domain {capacity.domain[:80]!r} is not a short plain name")
    try:
        return DeviceClass(capacity.device_class)
    except ValueError as exc:
        raise OfferRefused(f"unknown device class {capacity.device_class}") from exc
