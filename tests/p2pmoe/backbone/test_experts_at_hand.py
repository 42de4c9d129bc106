"""The hottest experts stay within the budget, and change rarely."""

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.experts_at_hand import HotSet, Moves, choose_hot, rebalance
from p2pmoe.backbone.next_use import NextUse
from p2pmoe.weights.errors import ModelFileError

SIZES = {ExpertId(layer, index): 100 for layer in (1, 2) for index in range(4)}


def use(**counts: float) -> np.ndarray:
    table = np.zeros((3, 4))
    for name, value in counts.items():
        _, layer, index = name.split("_")
        table[int(layer), int(index)] = value
    return table


def hot_set(budget: int | None, table: np.ndarray) -> HotSet:
    hot = HotSet(SIZES, budget, lambda expert: object())
    hot.fill(table)
    return hot


def test_the_hottest_are_chosen_ties_by_id() -> None:
    table = use(e_2_3=5, e_1_1=5, e_1_0=1)
    assert choose_hot(table, SIZES, 250) == [ExpertId(1, 1), ExpertId(2, 3)]
    assert len(choose_hot(table, SIZES, 10_000)) == 8


def test_heat_is_use_per_byte() -> None:
    sizes = {ExpertId(1, 0): 400, ExpertId(1, 1): 100}
    assert choose_hot(use(e_1_0=6, e_1_1=3), sizes, 400) == [ExpertId(1, 1)]


def test_a_small_gain_moves_nothing_and_a_large_one_does() -> None:
    hot = hot_set(200, use(e_1_0=10, e_1_1=8))
    assert hot.resident() == (ExpertId(1, 0), ExpertId(1, 1))
    assert hot.plan(use(e_1_0=10, e_1_1=8, e_2_0=9.9)) == Moves()
    moves = hot.plan(use(e_1_0=10, e_1_1=8, e_2_0=10.1))
    assert moves == Moves(evict=(ExpertId(1, 1),), load=(ExpertId(2, 0),))
    layer = hot.layer(1)
    hot.apply(moves)
    assert hot.resident() == (ExpertId(1, 0), ExpertId(2, 0))
    assert set(layer) == {0, 1}  # who has the snapshot keeps it
    assert set(hot.layer(1)) == {0}
    assert hot.n_bytes == 200


def test_what_must_be_kept_gives_way_to_nothing() -> None:
    hot = hot_set(250, use(e_1_0=10, e_1_1=8, e_2_0=1))
    hotter = use(e_1_0=10, e_1_1=8, e_2_0=10.1, e_2_1=100)
    kept = hot.plan(hotter, keep={ExpertId(1, 1)})
    assert kept == Moves(evict=(ExpertId(1, 0),), load=(ExpertId(2, 1),))
    assert hot.plan(hotter, keep=hot.resident()) == Moves()


def test_b03_a_read_that_fails_costs_no_resident_expert() -> None:
    lost = {ExpertId(2, 1)}

    def read(expert: ExpertId) -> object:
        if expert in lost:
            raise ModelFileError(Path("cut.gguf"), "needs 9 bytes, has 4")
        return object()

    hot = HotSet(SIZES, 200, read)
    hot.fill(use(e_1_0=10, e_1_1=8))
    moves = hot.plan(use(e_1_0=10, e_1_1=8, e_2_0=101, e_2_1=100))
    assert moves.load == (ExpertId(2, 0), ExpertId(2, 1))
    with pytest.raises(ModelFileError):
        hot.apply(moves)
    assert hot.resident() == (ExpertId(1, 0), ExpertId(2, 0))


def test_without_a_budget_all_are_resident() -> None:
    assert len(hot_set(None, use()).resident()) == 8
    assert {layer: len(e) for layer, e in hot_set(None, use()).layers().items()} == {
        1: 4,
        2: 4,
    }


@given(
    st.integers(0, 900),
    st.lists(st.integers(0, 50), min_size=8, max_size=8),
    st.lists(st.integers(0, 50), min_size=8, max_size=8),
    st.integers(1, 4),
)
def test_the_budget_holds_and_moves_are_few(
    budget: int, before: list[int], after: list[int], most: int
) -> None:
    def table(values: list[int]) -> np.ndarray:
        found = np.zeros((3, 4))
        found[1:] = np.array(values, float).reshape(2, 4)
        return found

    hot = hot_set(budget, table(before))
    assert hot.n_bytes <= budget
    resident = {expert: object() for expert in hot.resident()}
    moves = rebalance(table(after), SIZES, resident, budget, most)
    assert len(moves.load) <= most
    assert set(moves.evict) <= set(resident)
    assert not set(moves.load) & set(resident)
    hot.apply(moves)
    assert hot.n_bytes <= budget


def test_before_an_aim_what_comes_first_stays_while_there_is_room() -> None:
    hot = HotSet(SIZES, 250, lambda expert: object())
    ids = sorted(SIZES)
    assert [hot.adopt(expert, object()) for expert in ids[:3]] == [True, True, False]
    assert hot.adopt(ids[0], object())
    assert hot.resident() == hot.at_hand() == tuple(ids[:2])
    assert hot.n_bytes == 200


def test_with_an_aim_only_what_belongs_is_adopted_and_filling_evicts_the_rest() -> None:
    hot = HotSet(SIZES, 200, lambda expert: object())
    first = ExpertId(1, 3)
    hot.adopt(first, object())
    table = use(e_2_3=5, e_1_1=5)
    hot.aim(table)
    aimed = (ExpertId(1, 1), ExpertId(2, 3))
    assert hot.at_hand() == aimed
    assert hot.layers() == {1: {1}, 2: {3}}
    assert hot.resident() == (first,)
    assert not hot.adopt(ExpertId(2, 0), object())
    kept = object()
    assert hot.adopt(aimed[0], kept)
    hot.fill(table)
    assert hot.resident() == aimed
    assert hot.layer(1)[1] is kept  # what was adopted is not read again
    assert hot.n_bytes == 200


def test_filling_stops_when_told_and_goes_on_later() -> None:
    hot = HotSet(SIZES, None, lambda expert: object())
    looks = iter([True, True, False])
    hot.fill(use(e_2_0=3), lambda: next(looks))
    assert hot.resident() == (ExpertId(1, 0), ExpertId(2, 0))
    assert len(hot.at_hand()) == 8
    hot.fill(use(e_2_0=3))
    assert len(hot.resident()) == 8


def test_a_move_that_fails_leaves_an_aim_of_what_is_there() -> None:
    def read(expert: ExpertId) -> object:
        raise ModelFileError(Path("cut.gguf"), "needs 9 bytes, has 4")

    hot = HotSet(SIZES, 200, read)
    hot.aim(use(e_1_0=10, e_1_1=8))
    hot.adopt(ExpertId(1, 0), object())
    with pytest.raises(ModelFileError):
        hot.apply(Moves(load=(ExpertId(2, 0),)))
    assert hot.at_hand() == (ExpertId(1, 0),)


def test_many_threads_adopt_within_the_budget() -> None:
    hot = HotSet(SIZES, 450, lambda expert: object())
    ids = sorted(SIZES)

    def work() -> None:
        for expert in ids:
            hot.adopt(expert, object())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    hot.fill(use(e_2_0=3))
    for thread in threads:
        thread.join()
    assert hot.n_bytes == 100 * len(hot.resident()) <= 450
    assert set(hot.resident()) >= {ExpertId(2, 0)}


def calling(budget: int, aimed: int | None = None) -> tuple[HotSet, NextUse]:
    next_use = NextUse(3, 4)
    hot = HotSet(
        SIZES, budget, lambda expert: object(), aimed_bytes=aimed, next_use=next_use
    )
    return hot, next_use


@given(
    st.integers(0, 900),
    st.integers(0, 900),
    st.lists(st.integers(0, 7), max_size=40),
)
def test_calls_keep_to_the_budget_and_never_evict_what_is_aimed_at(
    budget: int, aimed: int, calls: list[int]
) -> None:
    hot, next_use = calling(budget, aimed)
    hot.fill(use(e_1_0=3, e_1_1=2, e_2_3=1))
    promised = set(hot.at_hand())
    assert 100 * len(promised) <= min(budget, aimed)
    for number in calls:
        expert = ExpertId(1 + number // 4, number % 4)
        next_use.add(expert.layer, np.array([[expert.index]]))
        if expert not in hot.resident():
            hot.adopt(expert, object())
        assert hot.n_bytes == 100 * len(hot.resident()) <= budget
        assert promised <= set(hot.resident())
        assert set(hot.at_hand()) == promised


def test_of_equals_the_lower_id_stays() -> None:
    hot, next_use = calling(200)
    for index in (0, 1, 2):
        next_use.add(1, np.array([[0, 1, 2]]))
        hot.adopt(ExpertId(1, index), object())
    assert hot.resident() == (ExpertId(1, 0), ExpertId(1, 1))
    for _ in range(3):
        next_use.add(1, np.array([[3]]))
    assert hot.adopt(ExpertId(1, 3), object())
    assert hot.resident() == (ExpertId(1, 0), ExpertId(1, 3))
    assert hot.n_evicted == 1


def test_what_is_foreseen_takes_a_place_and_is_kept_till_it_is_called() -> None:
    hot, next_use = calling(100)
    next_use.add(1, np.array([[0], [0], [0]]))
    assert hot.adopt(ExpertId(1, 0), object())
    assert not hot.adopt(ExpertId(2, 3), object())
    hot.foresee(2, np.array([3]))
    assert hot.adopt(ExpertId(2, 3), object())
    assert hot.resident() == (ExpertId(2, 3),)


def test_what_does_not_pay_is_neither_moved_nor_fetched() -> None:
    hot = HotSet(SIZES, 200, lambda expert: object())
    hot.warm(use(e_1_0=9, e_1_1=2), pays=lambda uses: uses > 5)
    assert hot.resident() == (ExpertId(1, 0),)
    table = use(e_1_0=9, e_1_1=2, e_2_0=30)
    assert hot.plan(table, pays=lambda uses: uses > 50) == Moves()
    assert hot.plan(table, pays=lambda uses: uses > 20).load == (ExpertId(2, 0),)


def test_there_is_place_for_what_would_be_adopted() -> None:
    one, other, third = ExpertId(1, 0), ExpertId(1, 1), ExpertId(2, 2)
    next_use = NextUse(3, 4)
    hot = HotSet(SIZES, 100, lambda expert: None, next_use=next_use)
    assert hot.has_place(one)
    assert hot.adopt(one, object())
    assert not hot.has_place(one), "it is here already"
    for _ in range(9):
        next_use.add(1, np.array([[1]], np.int64))
    assert hot.has_place(other), "it is needed sooner than the one that is here"
    assert hot.resident() == (one,), "asking changes nothing"
    assert hot.adopt(other, object())
    assert not hot.has_place(third), "nobody uses it"
    assert not HotSet(SIZES, 99, lambda expert: None).has_place(one)
    aimed = HotSet(SIZES, 100, lambda expert: None)
    aimed.aim(use(e_1_1=5))
    assert aimed.has_place(other)
    assert not aimed.has_place(one)
