"""Paid demand told to the market: each span the same whenever it is counted."""

import pytest
import trio
import trio.testing

from ledger.errors import DifferenceFound, StoreUnavailable
from mobile_worker.expert_id import ExpertId
from p2pmoe.ledgerd import paid_rounds
from p2pmoe.ledgerd.paid_rounds import PAID_SPAN_US, PaidRounds
from tests.support.ledger_world import World
from tests.support.trio_test import trio_test


@pytest.fixture
def world():
    return World()


@pytest.fixture
def store(world, tmp_path):
    with world.open(tmp_path) as store:
        yield store


def rounds(store, world):
    return PaidRounds(store, world.market.id, lambda *_: None, PAID_SPAN_US)


class Market:
    """Takes each span once, as the market does: by its borders."""

    def __init__(self) -> None:
        self.mark_us, self.rows = 0, {}

    def take(self, messages) -> None:
        for message in messages:
            if message.from_us < self.mark_us:
                continue
            self.mark_us = message.to_us
            for expert, n_rows in message.counts:
                self.rows[expert] = self.rows.get(expert, 0) + n_rows


def rows_of(*servings):
    sums = {}
    for at in servings:
        expert = ExpertId(at % 3, at % 5)
        sums[expert] = sums.get(expert, 0) + at % 4 + 1
    return sums


def test_a_span_is_told_once_it_is_over(store, world):
    told = rounds(store, world)
    tab = world.tab(store.grant(world.order()).result(60))
    tab.file(store, 0, 1, 2)
    assert told.round() == []
    world.now_us += PAID_SPAN_US
    (message,) = told.round()
    assert (message.to_us - message.from_us, message.to_us % PAID_SPAN_US) == (
        PAID_SPAN_US,
        0,
    )
    assert message.manifest_hash == world.manifest_hash
    assert dict(message.counts) == rows_of(0, 1, 2)


def test_after_a_restart_the_same_is_told_and_nothing_counts_twice(world, tmp_path):
    market, n_next, filed = Market(), 0, []
    for _ in range(4):
        with world.open(tmp_path) as store:
            told = rounds(store, world)
            issued = store.grant(world.order()).result(60)
            tab = world.tab(issued, tab=n_next.to_bytes(8, "big"))
            for _ in range(3):
                tab.file(store, n_next)
                filed.append(n_next)
                n_next += 1
                world.now_us += PAID_SPAN_US * 2 // 3
                messages = told.round()
                market.take(messages)
                assert messages == told.round()
                assert messages == rounds(store, world).round()
                assert messages == sorted(messages, key=lambda each: each.from_us)
    world.now_us += PAID_SPAN_US
    with world.open(tmp_path) as store:
        market.take(rounds(store, world).round())
    assert market.rows == rows_of(*filed)


def test_a_ledger_that_was_away_for_long_tells_what_was_filed_before(world, tmp_path):
    with world.open(tmp_path) as store:
        world.tab(store.grant(world.order()).result(60)).file(store, 0, 1)
    world.now_us += 1000 * PAID_SPAN_US
    with world.open(tmp_path) as store:
        told = rounds(store, world)
        (message,) = told.round()
        world.now_us += PAID_SPAN_US
        assert told.round() == []
    assert dict(message.counts) == rows_of(0, 1)


def test_a_round_that_came_late_leaves_nothing_out(store, world):
    told, market = rounds(store, world), Market()
    tab = world.tab(store.grant(world.order()).result(60))
    for n in range(3):
        tab.file(store, n)
        market.take(told.round())
        world.now_us += 500 * PAID_SPAN_US
    market.take(told.round())
    assert market.rows == rows_of(0, 1, 2)


def test_what_was_lost_comes_again(store, world):
    told, market = rounds(store, world), Market()
    tab = world.tab(store.grant(world.order()).result(60))
    tab.file(store, 0)
    world.now_us += PAID_SPAN_US
    told.round()  # lost on the way
    tab.file(store, 1)
    world.now_us += PAID_SPAN_US
    market.take(told.round())
    assert market.rows == rows_of(0, 1)


def test_leaves_that_are_damaged_hold_up_no_others(store, world, monkeypatch):
    told, market = rounds(store, world), Market()
    tab = world.tab(store.grant(world.order()).result(60))
    tab.file(store, 0)
    world.now_us += PAID_SPAN_US
    read = paid_rounds.paid_rows
    damaged = []

    def paid_rows(connection, folder, span):
        damaged[:] = damaged or [span]
        if span in damaged:
            raise DifferenceFound("its leaves are gone")
        return read(connection, folder, span)

    monkeypatch.setattr(paid_rounds, "paid_rows", paid_rows)
    assert told.round() == []
    tab.file(store, 1)
    world.now_us += PAID_SPAN_US
    market.take(told.round())
    assert market.rows == rows_of(1)


@trio_test
async def test_it_tells_once_a_span_and_goes_on_after_a_fault(tmp_path):
    world, sent, told_once = World(), [], trio.Event()

    def send(_, message):
        sent.append(message)
        told_once.set()

    with world.open(tmp_path) as store:
        told = PaidRounds(store, world.market.id, send, 10_000)
        tab = world.tab(store.grant(world.order()).result(60))
        tab.file(store, 0)
        world.now_us += 10_000
        answers = [StoreUnavailable("closed"), OSError("gone"), ZeroDivisionError()]
        plain = told.round

        def round_():
            if answers:
                raise answers.pop()
            return plain()

        told.round = round_
        async with trio.open_nursery() as nursery:
            nursery.start_soon(told.run)
            with trio.fail_after(60):
                await told_once.wait()
            nursery.cancel_scope.cancel()
    assert dict(sent[0].counts) == rows_of(0)
