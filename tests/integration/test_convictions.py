"""From a wrong serving to a refused key: ledger, market and holders, over messages.

The real draw, questions, referee and standing; holders answer as `audited_market` has
it, and the backbone shows the rows that the leaves are of. Nothing waits.
"""

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.beacon_words import AuditState
from ledger.errors import GrantRefused
from ledger.leaf import Leaf
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Canary, Open, Recompute, Verdict
from mobile_worker.messages.audits import Opened
from mobile_worker.standing import StandingState
from p2pmoe.ledgerd.auditor import DRAW_EVERY_S, Auditor
from relay.keys import PeerId
from tests.support.audited_market import LEDGER, NAME, AuditedWorld, honest, wrong
from tests.support.beacons import AUDIT_TERMS, audits, rows_behind
from tests.support.inline_threads import inline_threads
from tests.support.ledger_world import Party, TabSide, World, held
from tests.support.trio_test import trio_test

HOLDERS = ["w1", "w2", "w3", "w4"]


class ServedTab(TabSide):
    """A tab whose worker computes what it says: right, or wrong of every n-th row."""

    one_wrong_in = 0

    def leaf(self, at, /, **changes):
        right = Leaf.parse(super().leaf(at, **changes))
        canary = Canary(
            number=0,
            manifest_hash=NAME,
            experts=(),
            profile=2,
            n_rows=right.rows,
            within_ms=1,
            seed=b"",
            rows=rows_behind(right),
        )
        is_wrong = self.one_wrong_in and at % self.one_wrong_in == 0
        says = wrong if is_wrong else honest
        out_hash = says(canary, ExpertId(right.layer, right.expert))
        return super().leaf(at, **{"out_hash": out_hash, **changes})


class Scene:
    """A ledger that audits, and a market with four holders in four domains."""

    def __init__(self, world, store) -> None:
        self.world, self.store = world, store
        self.market = AuditedWorld()
        self.market.start(HOLDERS)
        self.market.pass_time(5)
        self.market.peer(LEDGER)
        self.n_verdicts = 0
        self._n_tabs = 0
        self.auditor = Auditor(store, self.carry)

    def carry(self, peer, message) -> None:
        """Take a message of the ledger to whom it is for, and the answer back."""
        match message:
            case Open():
                leaf = next(
                    each.leaf
                    for each in audits(self.store)
                    if each.leaf.serving == message.serving
                    and each.voucher_hash == message.voucher_hash
                )
                opened = Opened(
                    voucher_hash=message.voucher_hash,
                    serving=message.serving,
                    rows=rows_behind(leaf),
                    reason="",
                )
                self.auditor.take(peer, opened)
            case Recompute():
                for asked in self.market.say(LEDGER, message):
                    holder = self.market._names[asked.peer]
                    answer = self.market.answer_of(
                        asked.message, self.market.says.get(holder, honest)
                    )
                    for said in self.market.say(holder, answer):
                        self.auditor.take(PeerId(self.world.market.id), said.message)
            case Verdict():
                self.n_verdicts += 1
                self.market.say(LEDGER, message)

    def tab(self, name: str, one_wrong_in: int = 0) -> ServedTab:
        worker = Party(name)
        assert worker.id == self.market.peer(name)
        issued = self.store.grant(self.world.order(worker=worker)).result(60)
        self._n_tabs += 1
        made = self.world.tab(issued, worker=worker)
        tab = ServedTab(
            world=self.world,
            grant=made.grant,
            worker=worker,
            backbone=made.backbone,
            tab=b"tab-%04d" % self._n_tabs,
        )
        tab.one_wrong_in = one_wrong_in
        return tab

    async def file(self, tab: TabSide, *servings: int):
        filed = tab.file(self.store, *servings)
        self.world.now_us += 1_000_000
        for _ in range(3):
            await trio.sleep(DRAW_EVERY_S)
            await trio.testing.wait_all_tasks_blocked()
        return filed


@asynccontextmanager
async def scene(tmp_path, monkeypatch):
    inline_threads(monkeypatch)
    world = World()
    world.manifest_hash = NAME
    world.prices = world.prices.__class__(
        network=world.network.id, manifest_hash=NAME, epoch=7, base_uc=10
    )
    with world.open(tmp_path, terms=AUDIT_TERMS) as store:
        made = Scene(world, store)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.auditor.run)
            await trio.testing.wait_all_tasks_blocked()
            yield made
            nursery.cancel_scope.cancel()
        verify_ledger(store.reader(), world.identity)


@trio_test(autojump=True)
async def test_honest_work_passes_and_is_paid(tmp_path, monkeypatch):
    async with scene(tmp_path, monkeypatch) as s:
        tab = s.tab("w1")
        for start in range(0, 200, 40):
            await s.file(tab, *range(start, start + 40))
        states = {each.state for each in audits(s.store)}
        assert states == {AuditState.PASSED}
        assert s.n_verdicts == len(audits(s.store)) >= 20
        assert s.market.state("w1") is StandingState.GOOD
        pending = held(s.store, AccountKind.WORKER_PENDING)
        assert pending == tab.previous.amount_uc


@trio_test(autojump=True)
async def test_a_cheat_is_caught_at_its_first_filing_and_loses_it(
    tmp_path, monkeypatch
):
    async with scene(tmp_path, monkeypatch) as s:
        tab = s.tab("w1", one_wrong_in=1)
        await s.file(tab, 1)
        [audited] = audits(s.store)
        assert audited.state is AuditState.FAILED
        assert {word.referee for word in audited.words} <= {
            s.market.peer(name) for name in HOLDERS[1:]
        }
        assert held(s.store, AccountKind.WORKER_PENDING) == 0
        assert s.market.state("w1") is StandingState.SUSPENDED
        await s.file(s.tab("w1", one_wrong_in=1), 1)
        assert s.market.state("w1") is StandingState.REFUSED
        with pytest.raises(GrantRefused, match="its key is refused"):
            s.tab("w1")


@trio_test(autojump=True)
async def test_one_wrong_in_fifty_is_caught_while_it_is_a_newcomer(
    tmp_path, monkeypatch
):
    """Within 20 * 136 rows with 99.9 %; one in 50 of them wrong: 6,800 servings."""
    async with scene(tmp_path, monkeypatch) as s:
        tab = s.tab("w1", one_wrong_in=50)
        n_served = 0
        while s.market.state("w1") is StandingState.GOOD:
            filed = await s.file(tab, *range(n_served, n_served + 400))
            assert filed.status == 0
            n_served += 400
            assert n_served <= 6_800
        assert held(s.store, AccountKind.WORKER_PENDING) == 0


@trio_test(autojump=True)
async def test_one_referee_who_lies_convicts_nobody(tmp_path, monkeypatch):
    async with scene(tmp_path, monkeypatch) as s:
        s.market.says["w2"] = wrong
        for serving in range(12):
            await s.file(s.tab("w1"), serving)
        found = audits(s.store)
        assert {each.state for each in found} == {AuditState.PASSED}
        assert any(len(each.words) == 2 for each in found)
        assert s.market.state("w1") is StandingState.GOOD
