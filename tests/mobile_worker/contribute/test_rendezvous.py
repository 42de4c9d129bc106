"""Choosing without a market: alike for the same picture, spread, the rare first."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.contribute.rendezvous import choose_experts
from mobile_worker.expert_id import ExpertId
from relay.keys import PeerId

EXPERTS = [ExpertId(layer, index) for layer in range(4) for index in range(16)]
SIZES = [(expert, 100) for expert in EXPERTS]


def worker(number: int) -> PeerId:
    return PeerId(number.to_bytes(32, "big"))


@given(
    st.lists(st.integers(1, 500), max_size=40),
    st.integers(0, 5000),
    st.integers(0, 1000),
)
def test_it_fits_and_depends_on_nothing_but_the_picture(
    sizes: list[int], room: int, number: int
) -> None:
    known = list(zip(EXPERTS, sizes, strict=False))
    chosen = choose_experts(worker(number), known, {}, room)
    assert sum(dict(known)[expert] for expert in chosen) <= room
    assert chosen == tuple(sorted(set(chosen)))
    assert chosen == choose_experts(worker(number), known[::-1], {}, room)
    smallest = min(sizes, default=0)
    assert bool(chosen) == (0 < smallest <= room)


def test_workers_that_join_together_spread() -> None:
    held = Counter(
        expert
        for number in range(400)
        for expert in choose_experts(worker(number), SIZES, {}, 400)
    )
    assert held.total() == 1600  # 25 a piece on average
    assert len(held) == len(EXPERTS)
    assert min(held.values()) >= 9
    assert max(held.values()) <= 48


def test_what_few_hold_is_chosen_by_more() -> None:
    holders = dict.fromkeys(EXPERTS[:32], 3)
    rare = Counter(
        expert in holders
        for number in range(200)
        for expert in choose_experts(worker(number), SIZES, holders, 800)
    )
    assert rare[False] > 8 * rare[True]


def test_a_small_change_of_the_picture_moves_little() -> None:
    before = set(choose_experts(worker(7), SIZES, {}, 1600))
    after = set(choose_experts(worker(7), SIZES, {EXPERTS[0]: 1}, 1600))
    assert len(before ^ after) <= 2
