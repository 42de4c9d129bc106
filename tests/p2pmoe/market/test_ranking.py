import dataclasses
import random

import pytest

from mobile_worker.device_class import DeviceClass
from p2pmoe.market import ranking as ranking_module
from p2pmoe.market.devices import Device, ExpertKey
from p2pmoe.market.ranking import Ranking
from p2pmoe.market.wanted import Order, WantedState, rank
from tests.support.market_worlds import SHARD_BYTES, make_device, make_wanted


def states_of(n: int, *, has_disk: bool = True) -> list[WantedState]:
    wanted = make_wanted(random.Random(1), n, has_disk=has_disk)
    return [WantedState(wanted=each, tie=tie) for tie, each in enumerate(wanted)]


def laptop(name: str, domain: str = "home", slots: int = 9) -> Device:
    return make_device(name, DeviceClass.LAPTOP, slots, domain)


def hold(device: Device, state: WantedState) -> None:
    device.held[state.key] = state.n_bytes
    device.room_bytes -= state.n_bytes
    state.add(device)
    state.version += 1


def taken(ranking: Ranking, device: Device) -> ExpertKey | None:
    """Return what is first for a device, which takes it not."""
    entry = ranking.take(device, device.room_bytes)
    if entry is None:
        return None
    ranking.put_back(entry)
    return entry[2]


def test_what_is_taken_is_the_first_by_rank_until_no_more_is_needed() -> None:
    states = states_of(6)
    ranking = Ranking(Order.LAPTOP, states)
    for number in range(60):
        device = laptop(f"d{number}", f"net-{number}")
        needed = [(rank(s, Order.LAPTOP), s.key) for s in states]
        first = min(((r, key) for r, key in needed if r is not None), default=None)
        assert ranking.has_needs() == (first is not None)
        entry = ranking.take(device, device.room_bytes)
        assert (entry is None) == (first is None)
        if entry is None or first is None:
            break
        assert entry[2] == first[1]
        hold(device, entry[4])
        ranking.put_back(entry)
    assert not any(state.key in ranking for state in states)


def test_what_is_put_back_unchanged_is_where_it_was() -> None:
    ranking = Ranking(Order.HUB, states_of(4))
    device = make_device("h", DeviceClass.HUB, 4)
    assert {taken(ranking, device) for _ in range(3)} == {taken(ranking, device)}


def test_what_has_become_more_urgent_comes_at_once() -> None:
    states = states_of(3)
    ranking = Ranking(Order.LAPTOP, states)
    for state in states:
        hold(laptop("a", "a"), state)
    device = laptop("b", "b")
    last = states[2]
    last.remove(laptop("a", "a"))
    last.version += 1
    ranking.rank_anew(last)
    assert taken(ranking, device) == last.key


def test_what_is_no_longer_needed_is_not_offered() -> None:
    (state,) = states_of(1)
    ranking = Ranking(Order.LAPTOP, [state])
    for name in "abcd":
        hold(laptop(name, name), state)
    ranking.rank_anew(state)
    assert state.key not in ranking
    assert taken(ranking, laptop("e", "e")) is None
    assert not ranking.has_needs()


def test_the_best_of_another_domain_comes_first_and_the_others_stay_in_order() -> None:
    states = states_of(4)
    ranking = Ranking(Order.LAPTOP, states)
    by_rank = sorted(states, key=lambda state: rank(state, Order.LAPTOP))
    for state in by_rank[:3]:
        state.coverage.sums["here"] = 1  # present there, at no effect on its rank
    assert taken(ranking, laptop("h", "here")) == by_rank[3].key
    other = laptop("o", "other")
    for state in by_rank:
        entry = ranking.take(other, other.room_bytes)
        assert entry is not None
        assert entry[4] is state
        hold(other, state)


def test_a_second_copy_in_a_domain_comes_after_all_of_its_group() -> None:
    states = states_of(3)
    for state in states:
        state.coverage.sums["here"] = 1
    ranking = Ranking(Order.LAPTOP, states)
    by_rank = sorted(states, key=lambda state: rank(state, Order.LAPTOP))
    assert taken(ranking, laptop("h", "here")) == by_rank[0].key
    by_rank[0].coverage.sums["here"] = 1000
    assert taken(ranking, laptop("h", "here")) == by_rank[1].key


def test_more_than_the_room_is_passed_over() -> None:
    small, large = states_of(2)
    large.want(dataclasses.replace(large.wanted, n_bytes=9 * SHARD_BYTES))
    ranking = Ranking(Order.LAPTOP, [small, large])
    device = laptop("d", slots=2)
    assert taken(ranking, device) == small.key
    hold(device, small)
    assert taken(ranking, device) is None


def test_dead_entries_are_dropped_before_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranking_module, "_MORE_ENTRIES", 16)
    states = states_of(2, has_disk=False)
    ranking = Ranking(Order.LAPTOP, states)
    device = laptop("d")
    for _ in range(60):
        for state in states:
            hold(device, state)
        taken(ranking, laptop("other", "other"))  # ranks the first one anew
        for state in states:
            state.remove(device)
            state.version += 1
            ranking.rank_anew(state)
    assert len(ranking._queue) <= 4 * len(states) + 16
    assert all(state.key in ranking for state in states)
