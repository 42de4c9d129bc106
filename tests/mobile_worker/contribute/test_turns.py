"""Each peer in turn, each one's own in order, within bounds."""

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.contribute.turns import Turns
from relay.keys import PeerId
from tests.support.trio_test import trio_test

A, B, C = (PeerId(letter * 32) for letter in (b"a", b"b", b"c"))


async def taken(turns: Turns[int]) -> list[tuple[PeerId, int]]:
    return [await anext(turns) for _ in range(len(turns))]


@trio_test
async def test_one_that_asks_for_much_makes_nobody_wait_for_all_of_it() -> None:
    turns = Turns[int](max_items=100, max_of_peer=50)
    for number in range(5):
        assert turns.put(A, number)
    assert turns.put(B, 10)
    assert turns.put(C, 20)
    assert turns.put(B, 11)
    order = await taken(turns)
    assert order[:5] == [(A, 0), (B, 10), (C, 20), (A, 1), (B, 11)]
    assert order[5:] == [(A, 2), (A, 3), (A, 4)]


@trio_test
async def test_full_is_said_to_one_and_to_all() -> None:
    turns = Turns[int](max_items=3, max_of_peer=2)
    assert [turns.put(A, n) for n in range(3)] == [True, True, False]
    assert [turns.put(B, n) for n in range(3)] == [True, False, False]
    await anext(turns)
    assert turns.put(B, 4)


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers()), max_size=60))
def test_nothing_is_lost_and_everyones_order_is_kept(
    items: list[tuple[PeerId, int]],
) -> None:
    turns = Turns[int](max_items=100, max_of_peer=100)
    for peer, item in items:
        assert turns.put(peer, item)
    got: list[tuple[PeerId, int]] = []

    @trio_test
    async def run() -> None:
        got.extend(await taken(turns))

    run()
    for peer in (A, B, C):
        assert [i for p, i in got if p == peer] == [i for p, i in items if p == peer]
