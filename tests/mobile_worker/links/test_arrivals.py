"""The queue of events."""

import trio

from mobile_worker.links.arrivals import Arrivals
from mobile_worker.links.events import RelayChanged
from tests.support.trio_test import trio_test

UP, DOWN = RelayChanged(up=True, detail=""), RelayChanged(up=False, detail="")


@trio_test
async def test_events_come_in_order_and_receipts_are_given_back():
    taken = []
    arrivals = Arrivals(taken.append)
    arrivals.put(UP, "one")
    arrivals.put(DOWN)
    arrivals.put(UP, "two")
    assert len(arrivals) == 3
    assert [await anext(arrivals) for _ in range(2)] == [UP, DOWN]
    assert taken == ["one"]
    assert await anext(arrivals) == UP
    assert taken == ["one", "two"]


@trio_test
async def test_a_waiting_consumer_wakes_and_ends():
    arrivals = Arrivals(lambda _: None)
    found = []

    async def consume():
        found.extend([event async for event in arrivals])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        await trio.testing.wait_all_tasks_blocked()
        arrivals.put(UP)
        await trio.testing.wait_all_tasks_blocked()
        assert len(arrivals) == 0
        arrivals.put(DOWN)
        arrivals.close()
    assert found == [UP, DOWN]


@trio_test
async def test_a_flood_leaves_room_for_others():
    arrivals = Arrivals(lambda _: None)
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for _ in range(200):
            arrivals.put(UP)
        for _ in range(200):
            await anext(arrivals)
        nursery.cancel_scope.cancel()
    assert turns >= 10
