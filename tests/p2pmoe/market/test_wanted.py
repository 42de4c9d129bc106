from mobile_worker.device_class import DeviceClass
from p2pmoe.market.devices import ExpertKey
from p2pmoe.market.wanted import (
    Group,
    Order,
    Wanted,
    WantedState,
    group_of,
    order_of,
    rank,
)
from tests.support.market_worlds import make_device


def state_of(**changes) -> WantedState:
    values = {
        "key": ExpertKey(1),
        "n_bytes": 1,
        "demand": 1.0,
        "target": 1,
        "floor": 0,
        "at_hand": False,
        "in_tail": True,
    }
    return WantedState(wanted=Wanted(**(values | changes)), tie=7)


def group(state: WantedState, order: Order) -> Group | None:
    found = rank(state, order)
    return None if found is None else group_of(found)


def test_each_class_has_its_order() -> None:
    assert [order_of(c) for c in DeviceClass] == [
        Order.HUB,
        Order.LAPTOP,
        Order.TAIL,
        Order.TAIL,
    ]


def test_groups_follow_what_is_held() -> None:
    state = state_of()
    assert group(state, Order.LAPTOP) is Group.BELOW_TARGET
    hub = make_device("h", DeviceClass.HUB, 1, "a")
    state.add(hub)
    assert group(state, Order.LAPTOP) is Group.SPARE
    state.add(make_device("l", DeviceClass.LAPTOP, 1, "b"))
    assert group(state, Order.LAPTOP) is None
    state.remove(hub)
    assert group(state, Order.LAPTOP) is Group.BELOW_TARGET


def test_no_disk_puts_an_expert_below_its_floor_first() -> None:
    state = state_of(floor=2, target=2)
    assert group(state, Order.HUB) is Group.BELOW_FLOOR
    for domain in ("a", "b"):
        state.add(make_device(domain, DeviceClass.HUB, 1, domain))
    assert group(state, Order.HUB) is Group.SPARE


def test_below_the_floor_the_soonest_lost_comes_first() -> None:
    nobody, laptop, laptops, hub = (state_of(floor=3, target=3) for _ in range(4))
    laptop.add(make_device("a", DeviceClass.LAPTOP, 1, "a"))
    for name in "ab":
        laptops.add(make_device(name, DeviceClass.LAPTOP, 1, name))
    hub.add(make_device("h", DeviceClass.HUB, 1, "h"))
    ordered = [nobody, laptop, laptops, hub]
    assert sorted(ordered, key=lambda each: rank(each, Order.LAPTOP)) == ordered
    assert {group(each, Order.LAPTOP) for each in ordered} == {Group.BELOW_FLOOR}
    laptop_s = make_device("a", DeviceClass.LAPTOP, 1).stay_s
    assert [each.lost_in_s for each in ordered[:3]] == [0, laptop_s, 2 * laptop_s]
    before = rank(hub, Order.LAPTOP)
    hub.add(make_device("b", DeviceClass.BROWSER, 1, "b"))
    assert before < rank(hub, Order.LAPTOP)


def test_copies_in_one_domain_make_a_floor_out_of_reach_no_more_than_a_spare() -> None:
    state = state_of(floor=2, target=2)
    for name in "abcd":
        state.add(make_device(name, DeviceClass.LAPTOP, 1, "same"))
    assert group(state, Order.LAPTOP) is Group.SPARE


def test_a_hub_takes_a_hot_expert_that_only_laptops_hold() -> None:
    state = state_of(demand=5.0)
    for name in "ab":
        state.add(make_device(name, DeviceClass.LAPTOP, 1, name))
    assert group(state, Order.LAPTOP) is None
    assert group(state, Order.HUB) is Group.BELOW_TARGET


def test_phones_stay_in_the_tail_and_need_another_holder() -> None:
    assert group(state_of(in_tail=False), Order.TAIL) is None
    alone = state_of(floor=2, target=2)
    assert group(alone, Order.TAIL) is None
    alone.add(make_device("l", DeviceClass.LAPTOP, 1, "a"))
    assert group(alone, Order.TAIL) is Group.BELOW_FLOOR


def test_hot_first_for_hubs_and_cold_first_for_phones() -> None:
    hot, cold = state_of(demand=3.0), state_of(demand=0.1)
    assert rank(hot, Order.HUB) < rank(cold, Order.HUB)
    assert rank(hot, Order.LAPTOP) < rank(cold, Order.LAPTOP)
    assert rank(cold, Order.TAIL) < rank(hot, Order.TAIL)


def test_what_nobody_asks_for_is_a_spare_of_one() -> None:
    state = state_of(demand=0.0, target=0)
    assert group(state, Order.HUB) is Group.SPARE
    state.add(make_device("l", DeviceClass.LAPTOP, 1, "a"))
    assert group(state, Order.HUB) is None
