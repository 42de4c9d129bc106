"""Devices that hold experts: their class, failure domain, room, and sane bounds.

A device is one worker as the market sees it. Its class decides which experts it is
offered (hot ones to hubs, the tail to phones), its domain how far its replicas count
together. What a worker claims is refused unless it lies within sane bounds: adverts of
-1 or 2^64 bytes have been seen in the field (faults B15).

Pure; availability is an integer per mille, so that sums never depend on their order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NewType

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.errors import OfferRefused

__all__ = [
    "AVAILABILITY_PERMILLE",
    "MAX_DOMAIN_CHARS",
    "Capacity",
    "Device",
    "ExpertKey",
    "check_capacity",
    "layer_of",
]

ExpertKey = NewType("ExpertKey", int)  # deployment number << 32 | packed expert id

MAX_DOMAIN_CHARS = 100
_INDEX_BITS = 16  # of a packed expert id, below the layer
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
    """One worker: constant traits, and the experts that it is to hold."""

    name: bytes  # the worker's peer id
    device_class: DeviceClass
    domain: str
    availability: int  # per mille
    room_bytes: int  # left for further experts
    held: dict[ExpertKey, int] = field(default_factory=dict)  # key -> bytes
    declined: set[ExpertKey] = field(default_factory=set)  # given back
    refuses: set[int] = field(default_factory=set)  # deployments it does not accept

    def takes(self, key: ExpertKey) -> bool:
        """Whether the device could be asked to hold this expert as a further one."""
        if key in self.held or key in self.declined:
            return False
        return not self.refuses or key >> 32 not in self.refuses


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
