import random

from hypothesis import given, settings
from hypothesis import strategies as st

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.assignment import Assignment
from p2pmoe.market.coverage import is_met
from p2pmoe.market.devices import Device
from p2pmoe.market.rebalance import MIN_GAIN, need, plan_moves
from tests.support.market_worlds import make_device, make_devices, make_wanted


def all_movable(devices: list[Device]):
    return {(device.name, key) for device in devices for key in device.held}


def make_moves(assignment: Assignment, devices: list[Device], rounds: int) -> int:
    made = 0
    for _ in range(rounds):
        moves = plan_moves(assignment, devices, all_movable(devices), 100)
        for move in moves:
            assignment.release(move.device, move.drop)
            assignment.hold(move.device, move.take)
        made += len(moves)
        if not moves:
            break
    return made


def test_a_hub_that_comes_late_frees_laptops_for_the_middle() -> None:
    wanted = make_wanted(random.Random(1), 8, has_disk=True)
    assignment = Assignment(b"")
    assignment.want(wanted)
    laptop = make_device("laptop", DeviceClass.LAPTOP, 4, "a")
    hub = make_device("hub", DeviceClass.HUB, 4, "b")
    assert set(assignment.fill(laptop)) == set(assignment.fill(hub))
    assert make_moves(assignment, [laptop, hub], 10) == 4
    assert set(laptop.held).isdisjoint(hub.held)
    hottest = sorted(wanted, key=lambda w: -w.demand)[:4]
    assert set(hub.held) == {w.key for w in hottest}


def test_equal_need_moves_nothing() -> None:
    assignment = Assignment(b"")
    assignment.want(make_wanted(random.Random(2), 8, has_disk=True))
    laptop = make_device("laptop", DeviceClass.LAPTOP, 4)
    assignment.fill(laptop)
    assert plan_moves(assignment, [laptop], all_movable([laptop]), 10) == []


def test_what_is_young_or_not_live_stays() -> None:
    assignment = Assignment(b"")
    assignment.want(make_wanted(random.Random(3), 8, has_disk=True))
    devices = [make_device(n, DeviceClass.LAPTOP, 4, n) for n in "abc"]
    devices[0].room_bytes *= 2
    assignment.fill(devices[0])
    for device in devices[1:]:
        assignment.fill(device)
    assert plan_moves(assignment, devices, set(), 10) == []


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=40, deadline=None)
def test_moves_gain_end_and_keep_the_floor(seed: int, has_disk: bool) -> None:
    rng = random.Random(seed)
    assignment = Assignment(b"")
    n = rng.randint(2, 30)
    assignment.want(make_wanted(rng, n, has_disk=has_disk))
    devices = make_devices(rng, rng.randint(1, 20))
    rng.shuffle(devices)
    for device in devices:
        assignment.fill(device)
    for _ in range(30):
        moves = plan_moves(assignment, devices, all_movable(devices), 5)
        if not moves:
            break
        for move in moves:
            old, new = (assignment.states[k] for k in (move.drop, move.take))
            assert need(new, move.device) > MIN_GAIN * need(old, move.device)
            floor = old.wanted.floor
            stood = is_met(old.coverage.permille, floor)
            assignment.release(move.device, move.drop)
            assignment.hold(move.device, move.take)
            if stood and not move.has_room:
                assert is_met(old.coverage.permille, floor)
    else:
        raise AssertionError("moves go round in circles")
