"""The queue of events."""

import pytest
import trio

from mobile_worker.links.arrivals import Arrivals, take_each
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


@trio_test
async def test_what_is_flushed_is_taken_at_once_and_in_order():
    receipts, found = [], []
    arrivals = Arrivals(receipts.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(arrivals.take_each, found.append)
        await trio.testing.wait_all_tasks_blocked()
        arrivals.put(DOWN)
        arrivals.put_soon(UP, "one")
        arrivals.flush()
        assert found == [DOWN, UP]
        assert receipts == ["one"]
        await trio.testing.wait_all_tasks_blocked()
        arrivals.put_soon(UP)
        arrivals.flush()
        assert found == [DOWN, UP, UP]
        arrivals.close()


@trio_test
async def test_without_a_waiting_owner_a_flush_wakes_whoever_iterates():
    arrivals = Arrivals(lambda _: None)
    arrivals.flush()
    async with trio.open_nursery() as nursery:
        found = []

        async def one():
            found.append(await anext(arrivals))

        nursery.start_soon(one)
        await trio.testing.wait_all_tasks_blocked()
        arrivals.put_soon(UP)
        arrivals.flush()
        assert found == []
    assert found == [UP]


@trio_test
async def test_events_that_the_owner_causes_wait_for_their_turn():
    arrivals = Arrivals(lambda _: None)
    found, is_taking = [], False

    def take(event):
        nonlocal is_taking
        assert not is_taking
        is_taking = True
        found.append(event)
        if len(found) == 1:
            arrivals.put_soon(DOWN)
            arrivals.flush()
        is_taking = False

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_each, arrivals, take)
        await trio.testing.wait_all_tasks_blocked()
        arrivals.put_soon(UP)
        arrivals.flush()
        await trio.testing.wait_all_tasks_blocked()
        arrivals.close()
    assert found == [UP, DOWN]


@trio_test
async def test_what_the_owner_raises_ends_the_owner_not_the_node():
    arrivals = Arrivals(lambda _: None)

    def take(_):
        raise ValueError("no")

    async def run():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(arrivals.take_each, take)
            await trio.testing.wait_all_tasks_blocked()
            arrivals.put_soon(UP)
            arrivals.flush()
            arrivals.put_soon(DOWN)
            arrivals.flush()

    with pytest.raises(ExceptionGroup) as caught:
        await run()
    assert caught.group_contains(ValueError, match="no")
    assert len(arrivals) == 1


@trio_test
async def test_a_flood_of_flushed_events_goes_on_in_the_owners_task():
    arrivals = Arrivals(lambda _: None)
    found = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(arrivals.take_each, found.append)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(100):
            arrivals.put_soon(UP)
        arrivals.flush()
        assert len(found) < 100
        await trio.testing.wait_all_tasks_blocked()
        assert len(found) == 100
        arrivals.close()


@trio_test
async def test_another_kind_of_iterator_will_do():
    async def events():
        yield UP
        yield DOWN

    found = []
    await take_each(events(), found.append)
    assert found == [UP, DOWN]
