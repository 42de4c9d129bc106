"""The market: assign many devices from nothing, and what one more join costs.

Baseline: the same rule without a heap, which looks at every expert for every slot; it
is measured over few devices and stated for as many. It runs a smaller world: each slot
costs it a look at all experts, whatever the number of devices.
"""

import dataclasses
import random
import time

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.assignment import Assignment
from p2pmoe.market.coverage import is_met, replica_target
from p2pmoe.market.devices import Device
from p2pmoe.market.wanted import WantedState, order_of, rank
from tests.benchmarks.figures import Figure, figure
from tests.support.market_worlds import make_device, make_wanted

__all__ = ["run"]

_N_EXPERTS = 7_296  # MiniMax-M3: 57 layers of 128
_N_DEVICES = 50_000
_N_SLOTS = 4
_N_JOINS = 2_000
_N_BASELINE_DEVICES = 20
_REPETITIONS = 3
_SHARES = (
    (DeviceClass.HUB, 0.05),
    (DeviceClass.LAPTOP, 0.55),
    (DeviceClass.PHONE, 0.25),
    (DeviceClass.BROWSER, 0.15),
)


def _devices(n: int, seed: int) -> list[Device]:
    rng = random.Random(seed)
    classes = [c for c, _ in _SHARES]
    weights = [w for _, w in _SHARES]
    return [
        make_device(
            f"{seed}-{i}",
            rng.choices(classes, weights)[0],
            _N_SLOTS,
            f"net-{rng.randrange(n // 5 + 1)}",
        )
        for i in range(n)
    ]


def _world(seed: int) -> Assignment:
    """Return experts whose targets add up to about as many replicas as slots."""
    mean_target = _N_DEVICES * _N_SLOTS / _N_EXPERTS
    wanted = [
        dataclasses.replace(
            each,
            in_tail=True,
            target=replica_target(
                each.demand, replica_rate=1 / mean_target, floor=each.floor
            ),
        )
        for each in make_wanted(random.Random(seed), _N_EXPERTS, has_disk=False)
    ]
    assignment = Assignment(b"bench")
    assignment.want(wanted)
    return assignment


def _naive_slot(states: list[WantedState], device: Device) -> WantedState | None:
    """Return the neediest expert by looking at each, other domains first."""
    order = order_of(device.device_class)
    best = None
    for state in states:
        found = rank(state, order)
        if found is None or not device.takes(state.wanted.key):
            continue
        if state.wanted.n_bytes > device.room_bytes:
            continue
        key = (found[0], device.domain in state.coverage, found)
        if best is None or key < best[0]:
            best = (key, state)
    return best[1] if best else None


def _naive_seconds_per_slot() -> float:
    assignment = _world(0)
    states = list(assignment.states.values())
    started = time.perf_counter()
    n_slots = 0
    for device in _devices(_N_BASELINE_DEVICES, seed=9):
        while (state := _naive_slot(states, device)) is not None:
            assignment.hold(device, state.wanted.key)
            n_slots += 1
    return (time.perf_counter() - started) / n_slots


def run() -> list[Figure]:
    """Measure; well below 30 s in all."""
    naive_slot_s = _naive_seconds_per_slot()
    assign_s, join_us, met_share, filled_share = [], [], [], []
    for repetition in range(_REPETITIONS):
        assignment = _world(repetition)
        devices = _devices(_N_DEVICES, seed=repetition)
        started = time.perf_counter()
        assignment.fill_all(devices)
        assign_s.append(time.perf_counter() - started)
        states = assignment.states.values()
        met = sum(is_met(s.coverage.permille, s.wanted.target) for s in states)
        met_share.append(100 * met / _N_EXPERTS)
        n_filled = sum(len(device.held) for device in devices)
        filled_share.append(100 * n_filled / (_N_DEVICES * _N_SLOTS))
        # A tenth leaves, and as many others join one by one.
        for device in devices[: _N_DEVICES // 10]:
            assignment.release_all(device)
        joining = _devices(_N_JOINS, seed=1000 + repetition)
        started = time.perf_counter()
        for device in joining:
            assignment.fill(device)
        join_us.append(1e6 * (time.perf_counter() - started) / _N_JOINS)
    return [
        figure(
            f"assign {_N_DEVICES} devices x {_N_SLOTS}",
            "s",
            assign_s,
            baseline=[naive_slot_s * _N_DEVICES * _N_SLOTS],
            at_most=30.0 * _N_DEVICES / 1_000_000,
        ),
        figure(
            "one join, 4 slots",
            "us",
            join_us,
            baseline=[1e6 * naive_slot_s * _N_SLOTS],
            at_most=50.0,
        ),
        figure("experts within 5 % of target", "%", met_share, at_least=100.0),
        figure("slots filled", "%", filled_share),
    ]
