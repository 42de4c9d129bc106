"""Calls from threads: in order, none lost, before, while and after it runs."""

import functools
import threading

import pytest
import trio

from p2pmoe.backbone import handover as module
from p2pmoe.backbone.handover import Handover
from tests.support.trio_test import trio_test


def _call_from_threads(handover, made, n_threads, n_calls):
    def one(name):
        for number in range(n_calls):
            handover.call(lambda number=number: made.append((name, number)))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def _until(condition):
    while not condition():
        await trio.lowlevel.checkpoint()


@trio_test
async def test_every_call_is_made_on_the_trio_thread_in_its_threads_order():
    made, own = [], threading.get_ident()
    async with trio.open_nursery() as nursery:
        handover = Handover()
        nursery.start_soon(handover.run)
        await trio.testing.wait_all_tasks_blocked()
        await trio.to_thread.run_sync(_call_from_threads, handover, made, 4, 50)
        where = []
        handover.call(lambda: where.append(threading.get_ident()))
        await _until(lambda: where)
        nursery.cancel_scope.cancel()
    assert where == [own]
    assert len(made) == 200
    for name in range(4):
        assert [n for who, n in made if who == name] == list(range(50))


@trio_test
async def test_calls_before_and_after_it_ran_take_trios_own_way():
    made = []
    handover = Handover()
    handover.call(lambda: made.append("before"))
    await _until(lambda: made)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handover.run)
        await trio.testing.wait_all_tasks_blocked()
        handover.call(lambda: made.append("at its end"))
        nursery.cancel_scope.cancel()
    assert made == ["before", "at its end"]
    handover.call(lambda: made.append("after"))
    await _until(lambda: len(made) == 3)


@trio_test
async def test_no_call_overtakes_one_that_was_made_before_it_ran():
    for _ in range(30):  # where the thread is when it begins is left to chance
        made = []
        async with trio.open_nursery() as nursery:
            handover = Handover()
            calls = functools.partial(_call_from_threads, handover, made, 1, 100)
            nursery.start_soon(trio.to_thread.run_sync, calls)
            await trio.lowlevel.checkpoint()
            nursery.start_soon(handover.run)
            await _until(lambda made=made: len(made) == 100)
            nursery.cancel_scope.cancel()
        assert [number for _, number in made] == list(range(100))


@trio_test
async def test_a_system_without_eventfd_has_trios_own_way(monkeypatch):
    monkeypatch.delattr(module.os, "eventfd", raising=False)
    made = []
    handover = Handover()
    await handover.run()
    handover.call(lambda: made.append("made"))
    await _until(lambda: made)


def test_after_the_trio_thread_has_ended_a_call_is_refused():
    async def make():
        await trio.lowlevel.checkpoint()
        return Handover()

    handover = trio.run(make)
    with pytest.raises(trio.RunFinishedError):
        handover.call(lambda: None)
