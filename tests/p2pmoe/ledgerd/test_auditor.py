"""The auditor: from a filed voucher to a verdict, over faults and restarts."""

import dataclasses
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from ledger.audit import verify_ledger
from ledger.beacon_words import AuditState
from ledger.errors import StoreBusy
from mobile_worker.messages.audits import (
    CheckOutcome,
    Open,
    Opened,
    Recompute,
    Recomputed,
    Verdict,
)
from p2pmoe.ledgerd.auditor import DRAW_EVERY_S, REPEAT_EVERY_S, Auditor
from relay.keys import PeerId
from tests.support.beacons import audits, new_tab, rows_behind
from tests.support.inline_threads import inline_threads
from tests.support.ledger_world import Party, World
from tests.support.trio_test import trio_test

ONE, TWO = Party("one").id, Party("two").id


@pytest.fixture
def world():
    return World()


@pytest.fixture
def store(world, tmp_path):
    with world.open(tmp_path) as store:
        yield store


class Scene:
    """An auditor whose messages a backbone and a market answer, as they are told."""

    def __init__(self, world, store) -> None:
        self.world, self.store = world, store
        self.sent = []
        self.shows_rows = True
        self.words = {}  # how many came before -> (referee, out_hash); else the leaf's
        self.auditor = Auditor(store, self.send)

    def send(self, peer, message) -> None:
        self.sent.append((peer, message))

    def of(self, kind):
        return [message for _, message in self.sent if isinstance(message, kind)]

    def file(self, tab, *servings) -> None:
        tab.file(self.store, *servings)
        self.world.now_us += 1_000_000

    async def rounds(self, n: int = 3) -> None:
        """Let the auditor draw so often, and answer what it asks."""
        for _ in range(n):
            await draws()
            while self.answer():
                await trio.testing.wait_all_tasks_blocked()

    def answer(self) -> bool:
        """Answer what was sent; say whether there was a question."""
        asked = [each for each in self.sent if isinstance(each[1], Open | Recompute)]
        self.sent = [each for each in self.sent if each not in asked]
        for peer, message in asked:
            if isinstance(message, Open) and self.shows_rows:
                self.auditor.take(peer, self.opened(message))
            elif isinstance(message, Recompute):
                self.auditor.take(peer, self.recomputed(message))
        return bool(asked)

    def leaf(self, serving):
        found = audits(self.store)
        return next(each.leaf for each in found if each.leaf.serving == serving)

    def opened(self, message) -> Opened:
        return Opened(
            voucher_hash=message.voucher_hash,
            serving=message.serving,
            rows=rows_behind(self.leaf(message.serving)),
            reason="",
        )

    def recomputed(self, message) -> Recomputed:
        at = message.number % 4
        right = audits(self.store)[message.number // 4 - 1].leaf.out_hash
        referee, out_hash = self.words.get(at, (ONE, right))
        return Recomputed(
            number=message.number, out_hash=out_hash, referee=referee, reason=""
        )


async def draws() -> None:
    """Wait until the auditor has drawn once more."""
    await trio.sleep(DRAW_EVERY_S)
    await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def auditing(world, store, monkeypatch):
    inline_threads(monkeypatch)
    scene = Scene(world, store)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scene.auditor.run)
        await trio.testing.wait_all_tasks_blocked()  # the first beacon covers nothing
        yield scene
        nursery.cancel_scope.cancel()
    verify_ledger(store.reader(), world.identity)


@trio_test(autojump=True)
async def test_a_filed_voucher_is_drawn_opened_recomputed_and_passed(
    world, store, monkeypatch
):
    async with auditing(world, store, monkeypatch) as s:
        s.file(new_tab(world, store), *range(30))
        await s.rounds()
        assert {each.state for each in audits(store)} == {AuditState.PASSED}
        verdicts = s.of(Verdict)
        assert len(verdicts) == len(audits(store))
        assert {each.outcome for each in verdicts} == {CheckOutcome.PASSED}
        assert verdicts[0].worker == world.worker.id
        assert verdicts[0].referees == ONE


@trio_test(autojump=True)
async def test_two_referees_convict_and_the_market_hears_of_it_again(
    world, store, monkeypatch
):
    async with auditing(world, store, monkeypatch) as s:
        s.words = {0: (ONE, bytes(16)), 1: (TWO, bytes(16))}
        s.file(new_tab(world, store), 1)
        await s.rounds()
        [audited] = audits(store)
        assert (audited.state, audited.is_reversed) == (AuditState.FAILED, True)
        [verdict] = s.of(Verdict)
        assert verdict.outcome == CheckOutcome.FAILED
        assert verdict.referees == ONE + TWO
        assert verdict.voucher_hash == audited.voucher_hash
        await trio.sleep(REPEAT_EVERY_S + DRAW_EVERY_S)
        assert s.of(Verdict) == [verdict, verdict]


@trio_test(autojump=True)
async def test_a_backbone_that_does_not_open_is_on_record(world, store, monkeypatch):
    async with auditing(world, store, monkeypatch) as s:
        s.shows_rows = False
        s.file(new_tab(world, store), 1)
        await trio.sleep(60 + 2 * DRAW_EVERY_S)
        [audited] = audits(store)
        assert (audited.state, audited.detail) == (AuditState.UNOPENED, "no answer")
        assert s.of(Verdict) == []
        assert len(s.of(Open)) > 5  # asked again and again


@trio_test(autojump=True)
async def test_only_the_market_has_referees(world, store, monkeypatch):
    async with auditing(world, store, monkeypatch) as s:
        s.file(new_tab(world, store), 1)
        await draws()
        [(backbone, question)] = s.sent
        assert s.auditor.take(backbone, s.opened(question))
        [_, (market, order)] = s.sent
        assert market == world.market.id
        stranger = PeerId(world.worker.id)
        assert s.auditor.take(stranger, s.recomputed(order))
        await draws()
        assert audits(store)[0].state is AuditState.OPEN
        assert not s.auditor.take(stranger, order)  # no answer of anybody


@trio_test(autojump=True)
async def test_what_an_earlier_run_drew_is_taken_up(world, store, monkeypatch):
    async with auditing(world, store, monkeypatch) as s:
        s.file(new_tab(world, store), 1)
        await draws()
        assert len(s.of(Open)) == 1
    async with auditing(world, store, monkeypatch) as s:
        await s.rounds()
        assert audits(store)[0].state is AuditState.PASSED
    async with auditing(world, store, monkeypatch) as s:
        world.now_us += 3_600_000_000
        await s.rounds()
        assert s.of(Open) == s.of(Verdict) == []


@trio_test(autojump=True)
async def test_a_busy_store_puts_it_off(world, store, monkeypatch, caplog):
    n_refused = {"cast_beacon": 2, "decide_audit": 2}

    def refusing(name):
        real = getattr(store, name)

        def call(*args):
            n_refused[name] -= 1
            if n_refused[name] >= 0:
                raise StoreBusy("the disk is slow")
            return real(*args)

        return call

    for name in n_refused:
        monkeypatch.setattr(store, name, refusing(name))
    async with auditing(world, store, monkeypatch) as s:
        await s.rounds(2)
        s.file(new_tab(world, store), 1)
        await s.rounds(6)
        assert audits(store)[0].state is AuditState.PASSED
    assert "audits are put off: the disk is slow" in caplog.text


@trio_test(autojump=True)
async def test_a_finding_that_the_ledger_refuses_ends_nothing(
    world, store, monkeypatch, caplog
):
    async with auditing(world, store, monkeypatch) as s:
        real = store.decide_audit
        monkeypatch.setattr(
            store,
            "decide_audit",
            lambda finding: real(dataclasses.replace(finding, words=())),
        )
        tab = new_tab(world, store)
        s.file(tab, 1)
        await s.rounds()
        assert "is not decided" in caplog.text
        monkeypatch.setattr(store, "decide_audit", real)
        s.file(tab, 2)
        await s.rounds()
        assert [each.state.value for each in audits(store)] == ["open", "passed"]


@trio_test(autojump=True)
async def test_a_bug_in_the_store_ends_nothing(world, store, monkeypatch, caplog):
    real = store.cast_beacon, store.decide_audit
    n_bugs = [1, 1]

    def broken(which):
        def call(*args):
            n_bugs[which] -= 1
            if n_bugs[which] == 0:
                return store._writer.submit(lambda _: 1 // 0)
            return real[which](*args)

        return call

    async with auditing(world, store, monkeypatch) as s:
        monkeypatch.setattr(store, "cast_beacon", broken(0))
        monkeypatch.setattr(store, "decide_audit", broken(1))
        tab = new_tab(world, store)
        s.file(tab, 1)
        await s.rounds(4)
        s.file(tab, 2)
        await s.rounds(4)
        assert [each.state.value for each in audits(store)] == ["open", "passed"]
    assert "a round of audits failed" in caplog.text


@pytest.mark.parametrize("peer", [ONE, TWO])
@trio_test(autojump=True)
async def test_other_messages_are_no_business_of_the_auditor(store, peer):
    assert not Auditor(store, lambda *_: None).take(PeerId(peer), Verdict)
