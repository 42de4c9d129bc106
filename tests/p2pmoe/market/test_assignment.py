import random
import statistics
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from mobile_worker.device_class import DeviceClass
from mobile_worker.expert_id import ExpertId
from p2pmoe.market.assignment import Assignment
from p2pmoe.market.coverage import Replica, coverage_permille, is_met
from p2pmoe.market.deployments import key_of
from p2pmoe.market.devices import Device, ExpertKey, layer_of
from p2pmoe.market.wanted import Wanted, group_of, order_of, rank
from tests.support.assignment_oracle import (
    best_coverage,
    small_worlds,
    useful_coverage,
)
from tests.support.market_worlds import (
    SHARD_BYTES,
    make_device,
    make_devices,
    make_wanted,
)

SEEDS = st.integers(0, 2**32)
BIT_BY_BIT = settings(max_examples=60, deadline=None)


def board(wanted) -> Assignment:
    assignment = Assignment(b"salt")
    assignment.want(wanted)
    return assignment


def holders(devices: list[Device], key: ExpertKey) -> list[Device]:
    return [device for device in devices if key in device.held]


@given(SEEDS, st.integers(1, 40), st.integers(1, 60), st.booleans())
@BIT_BY_BIT
def test_room_holdings_and_counts_always_add_up(
    seed: int, n_devices: int, n_experts: int, has_disk: bool
) -> None:
    rng = random.Random(seed)
    assignment = board(make_wanted(rng, n_experts, has_disk=has_disk))
    devices = make_devices(rng, n_devices)
    room = {device.name: device.room_bytes for device in devices}
    assignment.fill_all(devices)
    for gone in rng.sample(devices, n_devices // 3):
        assignment.release_all(gone)
        assert gone.room_bytes == room[gone.name]
        devices.remove(gone)
    assignment.fill_all(devices)
    for device in devices:
        assert device.room_bytes >= 0
        used = sum(device.held.values())
        assert device.room_bytes + used == room[device.name]
    for key, state in assignment.states.items():
        found = holders(devices, key)
        replicas = [
            Replica(domain=d.domain, availability=d.availability) for d in found
        ]
        assert state.n_replicas == len(found)
        assert state.coverage.permille == coverage_permille(replicas)


def first_by_looking_at_each(assignment: Assignment, device: Device):
    """Return what the device should add, by the rule as it is written down."""
    order = order_of(device.device_class)
    ranked = [(rank(s, order), s) for s in assignment.states.values()]
    ranked = [(found, s) for found, s in ranked if found is not None]
    second = None
    for found, state in sorted(ranked, key=lambda pair: pair[0]):
        if second is not None and group_of(found) > group_of(second[0]):
            break
        key, there = state.wanted.key, state.coverage.sums.get(device.domain, 0)
        fits = state.wanted.n_bytes <= device.room_bytes and device.takes(key)
        if fits and not there:
            return key
        if fits and there < 1000:
            second = second or (found, key)
    return None if second is None else second[1]


@given(SEEDS, st.booleans())
@BIT_BY_BIT
def test_the_heaps_say_what_looking_at_each_expert_says(seed: int, has_disk) -> None:
    """Whatever is held, released, wanted otherwise, or counted anew in between."""
    rng = random.Random(seed)
    assignment = board(make_wanted(rng, 12, has_disk=has_disk))
    devices = make_devices(rng, 8)
    for _ in range(60):
        device, what = rng.choice(devices), rng.randrange(6)
        if what == 0 and device.held:
            assignment.release(device, rng.choice(list(device.held)))
        elif what == 1:
            assignment.want(make_wanted(rng, 12, has_disk=has_disk, n_at_hand=2))
        elif what == 2:
            domain, availability = f"net-{rng.randrange(4)}", rng.randint(100, 1000)
            assignment.restate(device, domain=domain, stay=(availability, 9))
        elif what == 3:
            assignment.fill(device)
        else:
            asked = assignment.neediest(device, device.room_bytes)
            assert asked == first_by_looking_at_each(assignment, device)
            if asked is not None:
                assignment.hold(device, asked)


@given(SEEDS, st.integers(2, 40), st.integers(4, 80))
@BIT_BY_BIT
def test_phones_hold_the_tail_and_hubs_the_hottest(
    seed: int, n_devices: int, n_experts: int
) -> None:
    rng = random.Random(seed)
    n_at_hand = rng.randrange(n_experts // 2)
    wanted = make_wanted(rng, n_experts, has_disk=True, n_at_hand=n_at_hand)
    assignment = board(wanted)
    devices = make_devices(rng, n_devices)
    assignment.fill_all(devices)
    demand = {each.key: each.demand for each in wanted if not each.at_hand}
    by_phones = demands(devices, demand, mobile=True)
    by_hubs = demands(devices, demand, mobile=False)
    if by_phones and by_hubs:
        assert statistics.median(by_phones) <= statistics.median(by_hubs)


def demands(devices, demand, *, mobile: bool) -> list[float]:
    return [
        demand[key]
        for device in devices
        if device.device_class.is_mobile == mobile
        and (mobile or device.device_class is DeviceClass.HUB)
        for key in device.held
        if key in demand
    ]


@given(SEEDS, st.integers(1, 40), st.integers(1, 40))
@BIT_BY_BIT
def test_a_phone_or_browser_is_never_the_only_holder(
    seed: int, n_devices: int, n_experts: int
) -> None:
    rng = random.Random(seed)
    wanted = make_wanted(rng, n_experts, has_disk=False, n_at_hand=n_experts // 4)
    assignment = board(wanted)
    devices = make_devices(rng, n_devices)
    rng.shuffle(devices)
    for device in devices:
        assignment.fill(device)
    for each in wanted:
        found = holders(devices, each.key)
        if found and not each.at_hand:
            assert any(not d.device_class.is_mobile for d in found)


@given(SEEDS, st.integers(1, 30))
@BIT_BY_BIT
def test_rarest_first_covers_all_before_any_twice(seed: int, n_experts: int) -> None:
    rng = random.Random(seed)
    assignment = board(make_wanted(rng, n_experts, has_disk=True))
    devices = make_devices(rng, 3 * n_experts, [DeviceClass.LAPTOP])
    for device in devices:
        assignment.fill(device)
        counts = [s.n_replicas for s in assignment.states.values()]
        if min(counts) == 0:
            assert max(counts) == 1
    assert min(s.n_replicas for s in assignment.states.values()) >= 1


@given(SEEDS, st.integers(1, 30))
@BIT_BY_BIT
def test_floors_and_targets_are_reached_where_there_is_room(
    seed: int, n_experts: int
) -> None:
    rng = random.Random(seed)
    assignment = board(make_wanted(rng, n_experts, has_disk=False))
    devices = [
        make_device(f"d{i}", DeviceClass.LAPTOP, n_experts, f"net-{i}")
        for i in range(12)
    ]
    assignment.fill_all(devices)
    for state in assignment.states.values():
        assert is_met(state.coverage.permille, state.wanted.target)
        assert state.n_replicas <= 2 * state.wanted.target


def test_another_domain_comes_before_a_second_copy_in_the_same() -> None:
    assignment = board(make_wanted(random.Random(1), 2, has_disk=False))
    first = make_device("first", DeviceClass.LAPTOP, 1, "a")
    (one,) = assignment.fill(first)
    neighbour = make_device("neighbour", DeviceClass.LAPTOP, 1, "a")
    (other,) = assignment.fill(neighbour)
    assert other != one
    again = make_device("again", DeviceClass.LAPTOP, 2, "a")
    far = make_device("far", DeviceClass.LAPTOP, 2, "b")
    assert set(assignment.fill(far)) == {one, other}
    assert set(assignment.fill(again)) == {one, other}


def test_b34_copies_in_one_domain_keep_nobody_else_out() -> None:
    assignment = board(make_wanted(random.Random(1), 3, has_disk=False))
    crowd = [make_device(f"s{i}", DeviceClass.LAPTOP, 3, "same") for i in range(50)]
    assignment.fill_all(crowd)
    assert [s.n_replicas for s in assignment.states.values()] == [2, 2, 2]
    assert all(state.is_below_floor for state in assignment.states.values())
    honest = make_device("honest", DeviceClass.LAPTOP, 3, "elsewhere")
    assert set(assignment.fill(honest)) == set(assignment.states)


def test_nearly_as_much_is_covered_as_by_the_best_placement_there_is() -> None:
    ours = best = 0.0
    for wanted, devices in small_worlds(24):
        best += best_coverage(wanted, devices)
        assignment = board(wanted)
        assignment.fill_all(devices)
        ours += useful_coverage(assignment)
    assert 0.98 * best <= ours <= best + 1e-6


def test_what_is_at_hand_comes_last() -> None:
    wanted = make_wanted(random.Random(2), 8, has_disk=True, n_at_hand=4)
    assignment = board(wanted)
    at_hand = {each.key for each in wanted if each.at_hand}
    small = make_device("small", DeviceClass.HUB, 4)
    assert not at_hand & set(assignment.fill(small))
    large = make_device("large", DeviceClass.LAPTOP, 8)
    given_out = assignment.fill(large)
    assert set(given_out[:4]).isdisjoint(at_hand)
    assert set(given_out[4:]) == at_hand


def test_several_that_join_at_once_share_what_no_one_holds() -> None:
    wanted = make_wanted(random.Random(3), 12, has_disk=True)
    assignment = board(wanted)
    hub = make_device("hub", DeviceClass.HUB, 4)
    laptops = [make_device(f"l{i}", DeviceClass.LAPTOP, 2) for i in range(4)]
    assignment.fill_all([*laptops, hub])
    counts = Counter(key for device in [*laptops, hub] for key in device.held)
    assert len(counts) == 12
    assert set(counts.values()) == {1}
    hottest = sorted(wanted, key=lambda each: -each.demand)[:4]
    assert set(hub.held) == {each.key for each in hottest}


def test_what_was_given_back_is_not_offered_again() -> None:
    assignment = board(make_wanted(random.Random(4), 3, has_disk=True))
    device = make_device("d", DeviceClass.LAPTOP, 2)
    device.declined = set(assignment.states)
    assert assignment.fill(device) == []


def test_a_larger_expert_than_the_room_is_passed_over() -> None:
    assignment = board(make_wanted(random.Random(5), 3, has_disk=True))
    device = make_device("d", DeviceClass.LAPTOP, 1)
    device.room_bytes = SHARD_BYTES - 1
    assert assignment.fill(device) == []


def test_two_that_fit_singly_but_not_together_are_not_both_assigned() -> None:
    assignment = board(make_wanted(random.Random(6), 2, has_disk=True))
    device = make_device("d", DeviceClass.LAPTOP, 1)
    device.room_bytes = 2 * SHARD_BYTES - 1
    assert len(assignment.fill(device)) == 1


def test_replication_overhead_is_told_in_bytes() -> None:
    assignment = board(make_wanted(random.Random(7), 2, has_disk=False))
    for name in ("a", "b"):
        assignment.fill(make_device(name, DeviceClass.LAPTOP, 2, name))
    assert assignment.overhead_bytes() == 2 * SHARD_BYTES


def test_experts_no_longer_wanted_are_forgotten() -> None:
    assignment = board(make_wanted(random.Random(8), 2, has_disk=True))
    device = make_device("d", DeviceClass.LAPTOP, 4)
    assignment.fill(device)
    assignment.release_all(device)
    assignment.forget(list(assignment.states))
    assert len(assignment) == 0
    assert assignment.fill(device) == []


def test_a_deployment_that_a_device_refuses_is_not_given_to_it() -> None:
    assignment = board(make_wanted(random.Random(9), 2, has_disk=True))
    device = make_device("d", DeviceClass.LAPTOP, 2)
    device.refuses = {0}
    assert assignment.fill(device) == []


def test_a_device_gets_experts_of_one_layer_where_they_are_needed_alike() -> None:
    """32 devices share 8 layers of 16: whole layers, so few are asked in a layer."""
    wanted = [
        Wanted(
            key=key_of(0, ExpertId(layer, index)),
            n_bytes=SHARD_BYTES,
            demand=1.0 + index / 32,
            target=1,
            floor=1,
            at_hand=False,
            in_tail=True,
        )
        for layer in range(8)
        for index in range(16)
    ]
    assignment = board(wanted)
    devices = [
        make_device(f"d{i}", DeviceClass.LAPTOP, 4, f"net-{i}") for i in range(32)
    ]
    assignment.fill_all(devices)
    asked: dict[int, int] = Counter()
    for device in devices:
        assert len(device.held) == 4
        for layer in {layer_of(key) for key in device.held}:
            asked[layer] += 1
    assert sum(asked.values()) <= 40  # 32 at best, some 110 if scattered
