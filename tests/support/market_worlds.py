"""Random worlds for the market's tests: devices and wanted experts from a seed."""

import random
from collections.abc import Sequence

from mobile_worker.expert_id import ExpertId
from p2pmoe.market.demand import Shard, wanted_of
from p2pmoe.market.devices import (
    AVAILABILITY_PERMILLE,
    Device,
    DeviceClass,
    ExpertKey,
)
from p2pmoe.market.wanted import Wanted

__all__ = ["SHARD_BYTES", "make_device", "make_devices", "make_wanted"]

SHARD_BYTES = 1000


def make_device(
    name: str, device_class: DeviceClass, slots: int, domain: str = "home"
) -> Device:
    """Return a device with room for `slots` shards."""
    return Device(
        name=name.encode(),
        device_class=device_class,
        domain=domain,
        availability=AVAILABILITY_PERMILLE[device_class],
        room_bytes=slots * SHARD_BYTES,
    )


def make_devices(
    rng: random.Random, n: int, classes: Sequence[DeviceClass] = tuple(DeviceClass)
) -> list[Device]:
    """Return `n` devices in random classes, domains and sizes."""
    return [
        make_device(
            f"device-{i}",
            rng.choice(classes),
            rng.randint(1, 6),
            f"net-{rng.randrange(max(2, n // 2))}",
        )
        for i in range(n)
    ]


def make_wanted(
    rng: random.Random, n: int, *, has_disk: bool, n_at_hand: int = 0
) -> list[Wanted]:
    """Return `n` wanted experts of skewed demand, the hottest `n_at_hand` at hand."""
    shards = [
        Shard(
            key=ExpertKey(i),
            expert=ExpertId.unpack(i),
            n_bytes=SHARD_BYTES,
            digest=bytes(32),
        )
        for i in range(n)
    ]
    weights = [1 / (place + 1) ** 0.9 for place in range(n)]
    rng.shuffle(weights)
    mean = sum(weights) / n
    demand = {s.expert: w / mean for s, w in zip(shards, weights, strict=True)}
    hottest = sorted(demand, key=demand.__getitem__, reverse=True)
    return wanted_of(shards, demand, set(hottest[:n_at_hand]), has_disk=has_disk)
