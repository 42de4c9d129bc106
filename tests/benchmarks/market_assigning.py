"""A million devices assigned from nothing, and what one more join costs.

The world: 32 models of 7,296 experts (MiniMax-M3: 57 layers of 128), no disk behind
any, demand skewed within a model, targets and spares that take most of the slots. A
tenth of the devices then leaves and others join one by one. Times are the processor's,
of one thread. Run in a child process,
whose greatest resident memory is the figure; with MARKET_DEVICES=N with fewer devices,
and as many times fewer models.

Baseline: the same rule without a heap, which looks at every expert for every slot; it
is measured over few devices and one model, and stated for as many slots. Its real cost
would be as many times greater as there are models.

    python -m tests.benchmarks.market_assigning     # the child: tells figures as JSON
"""

import dataclasses
import os
import random
import resource
import time
from collections.abc import Iterator

from mobile_worker.device_class import DeviceClass
from mobile_worker.expert_id import ExpertId
from p2pmoe.market.assignment import Assignment
from p2pmoe.market.coverage import FULL_PERMILLE, is_met, replica_target
from p2pmoe.market.demand import Shard, wanted_of
from p2pmoe.market.devices import Device, ExpertKey
from p2pmoe.market.wanted import Wanted, WantedState, order_of, rank
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.one_core import measured_on_one_core, tell
from tests.support.market_worlds import SHARD_BYTES, make_device

__all__ = ["measure", "run"]

_N_DEVICES = 1_000_000
_N_MODELS = 32
_N_EXPERTS = 7_296  # of one model
_N_SLOTS = 4
_N_JOINS = 2_000
_SKEW = 0.7  # of demand: the hottest of a layer of 128 has some five times the mean
_WANTED_SHARE = 0.75  # of all slots: the rest is for spares, and for absences
_N_BASELINE_DEVICES = 20
_MAX_S = 30.0
_MAX_BYTES = 4 << 30
_SHARES = (
    (DeviceClass.HUB, 0.05),
    (DeviceClass.LAPTOP, 0.80),
    (DeviceClass.PHONE, 0.10),
    (DeviceClass.BROWSER, 0.05),
)


def _devices(n: int, seed: int) -> Iterator[Device]:
    """Yield devices, five to a network on average."""
    rng = random.Random(seed)
    classes = [c for c, _ in _SHARES]
    weights = [w for _, w in _SHARES]
    networks = [f"net {at}" for at in range(n // 5 + 1)]
    for i in range(n):
        device_class = rng.choices(classes, weights)[0]
        name = f"{seed} {i}"
        yield make_device(name, device_class, _N_SLOTS, rng.choice(networks))


def _wanted(model: int, mean_target: float) -> list[Wanted]:
    """Return what one model wants: targets of `mean_target` on average."""
    rng = random.Random(model)
    shards = [
        Shard(
            key=ExpertKey(model << 32 | number),
            expert=ExpertId.unpack(number),
            n_bytes=SHARD_BYTES,
            digest=bytes(32),
        )
        for number in range(_N_EXPERTS)
    ]
    uses = [rng.lognormvariate(0.0, _SKEW) for _ in shards]
    mean = sum(uses) / len(uses)
    demand = {s.expert: use / mean for s, use in zip(shards, uses, strict=True)}
    return [
        dataclasses.replace(
            each,
            target=replica_target(
                each.demand, replica_rate=1 / mean_target, floor=each.floor
            ),
        )
        for each in wanted_of(shards, demand, (), has_disk=False)
    ]


def _naive_slot(states: list[WantedState], device: Device) -> WantedState | None:
    """Return the neediest expert by looking at each, other domains first."""
    order = order_of(device.device_class)
    best = None
    for state in states:
        found = rank(state, order)
        there = state.coverage.sums.get(device.domain, 0)
        if found is None or there >= FULL_PERMILLE:
            continue
        if state.wanted.n_bytes > device.room_bytes:
            continue
        if not device.takes(state.wanted.key):
            continue
        key = (int(found[0]), there > 0, found)
        if best is None or key < best[0]:
            best = (key, state)
    return best[1] if best else None


def _naive_s_a_slot(mean_target: float) -> float:
    assignment = Assignment(b"bench")
    assignment.want(_wanted(0, mean_target))
    states = list(assignment.states.values())
    started = time.process_time()
    n_slots = 0
    for device in _devices(_N_BASELINE_DEVICES, seed=9):
        while (state := _naive_slot(states, device)) is not None:
            assignment.hold(device, state.wanted.key)
            n_slots += 1
    return (time.process_time() - started) / n_slots


def _join_us(assignment: Assignment, devices: list[Device]) -> float:
    """Return what a join costs, once a tenth has left and some of it is replaced."""
    n_left = len(devices) // 10
    for device in devices[:n_left]:
        assignment.release_all(device)
    for device in _devices(n_left // 4, seed=999):
        assignment.fill(device)
    joining = list(_devices(_N_JOINS, seed=1000))
    started = time.process_time()
    for device in joining:
        assignment.fill(device)
    return 1e6 * (time.process_time() - started) / _N_JOINS


def measure() -> list[Figure]:
    """Measure, in this very process; about a minute."""
    n_devices = int(os.environ.get("MARKET_DEVICES", _N_DEVICES))
    n_models = max(1, _N_MODELS * n_devices // _N_DEVICES)
    n_slots = n_devices * _N_SLOTS
    mean_target = _WANTED_SHARE * n_slots / (n_models * _N_EXPERTS)
    naive_s = _naive_s_a_slot(mean_target)
    assignment = Assignment(b"bench")
    for model in range(n_models):
        assignment.want(_wanted(model, mean_target))
    devices = list(_devices(n_devices, seed=1))
    started = time.process_time()
    assignment.fill_all(devices)
    took_s = time.process_time() - started
    states = assignment.states.values()
    met = sum(is_met(s.coverage.permille, s.wanted.target) for s in states)
    filled = sum(len(device.held) for device in devices) / n_slots
    copies = SHARD_BYTES * len(states)
    overhead = assignment.overhead_bytes() / copies
    join_us = _join_us(assignment, devices)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    share = n_devices / _N_DEVICES
    return [
        figure(
            f"assign {n_devices:,} devices x {_N_SLOTS}",
            "s",
            [took_s],
            baseline=[naive_s * n_slots],
            at_most=_MAX_S * share,
        ),
        figure(
            "resident memory at most", "MiB", [peak / 2**20], at_most=_MAX_BYTES / 2**20
        ),
        figure(
            "one join, 4 slots",
            "us",
            [join_us],
            baseline=[1e6 * naive_s * _N_SLOTS],
            at_most=50.0,
        ),
        figure(
            "experts within 5 % of target",
            "%",
            [100 * met / len(states)],
            at_least=100.0,
        ),
        figure("slots filled", "%", [100 * filled]),
        figure("replication overhead, in copies of all experts", "x", [overhead]),
    ]


def run() -> list[Figure]:
    """Measure in a child process."""
    return measured_on_one_core("tests.benchmarks.market_assigning")


if __name__ == "__main__":
    tell(measure())
