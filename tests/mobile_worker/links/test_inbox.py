"""The inbox: order, bounds, and a share for everyone."""

import trio
import trio.testing

from mobile_worker.links.inbox import Inbox
from relay.keys import PeerId
from tests.support.trio_test import trio_test

LOUD, QUIET, THIRD = (PeerId(name * 32) for name in (b"l", b"q", b"t"))


async def take(inbox: Inbox[int], n: int) -> list[tuple[PeerId, int]]:
    return [await anext(inbox) for _ in range(n)]


@trio_test
async def test_items_come_out_in_the_order_of_their_arrival() -> None:
    inbox = Inbox[int](max_items=8, max_of_peer=8)
    assert inbox.put(LOUD, 1)
    assert inbox.put(QUIET, 2)
    assert inbox.put(LOUD, 3)
    assert len(inbox) == 3
    assert await take(inbox, 3) == [(LOUD, 1), (QUIET, 2), (LOUD, 3)]
    assert len(inbox) == 0


@trio_test
async def test_nobody_takes_the_room_of_others() -> None:
    inbox = Inbox[int](max_items=8, max_of_peer=3)
    assert [inbox.put(LOUD, n) for n in range(5)] == [True] * 3 + [False] * 2
    assert inbox.put(QUIET, 9)
    await take(inbox, 1)
    assert inbox.put(LOUD, 5)
    assert not inbox.put(LOUD, 6)


@trio_test
async def test_the_whole_is_bounded_in_number_and_bytes() -> None:
    inbox = Inbox[int](max_items=2, max_of_peer=2, max_bytes=100)
    assert inbox.put(LOUD, 1, 60)  # one item may be larger than a share
    assert not inbox.put(LOUD, 2, 1)
    assert not inbox.put(QUIET, 3, 60)
    assert inbox.put(QUIET, 4, 40)
    assert not inbox.put(THIRD, 5)
    await take(inbox, 2)
    assert inbox.put(QUIET, 6, 100)
    assert not inbox.put(THIRD, 7, 101)


@trio_test
async def test_a_consumer_waits_for_what_comes() -> None:
    inbox = Inbox[int](max_items=2, max_of_peer=2)
    taken: list[tuple[PeerId, int]] = []

    async def consume() -> None:
        taken.extend(await take(inbox, 2))

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            await trio.testing.wait_all_tasks_blocked()
            inbox.put(LOUD, 1)
            await trio.testing.wait_all_tasks_blocked()
            assert taken == []
            inbox.put(QUIET, 2)
    assert taken == [(LOUD, 1), (QUIET, 2)]
