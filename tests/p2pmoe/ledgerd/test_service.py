"""The ledger behind a node: answers after commits, faults answered, order kept."""

import dataclasses
import threading
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.claims import FiledStatus, IssuedGrant
from ledger.errors import FolderInUse, LedgerError, StoreBusy
from ledger.grant import verify_grant
from ledger.standby import sign_standby
from ledger.store import Store
from ledger.voucher import voucher_hash
from mobile_worker.clock import SystemClock
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.events import Arrived
from mobile_worker.links.memory import MemoryNetwork
from mobile_worker.links.node import NodeSettings
from mobile_worker.messages import accounts as wire
from mobile_worker.messages.audits import Booked, Paid, Standby
from mobile_worker.session.identity import Identity
from p2pmoe.ledgerd import service as module
from p2pmoe.ledgerd.service import LedgerService, open_store
from relay.tokens import Role
from tests.support.ledger_world import Party, World, held
from tests.support.standby_world import fill_pot, paper_of, served
from tests.support.trio_test import trio_test


class Scene:
    """A ledger service and a backbone's node that talks to it."""

    def __init__(self, world, store, ledger, backbone) -> None:
        self.world, self.store = world, store
        self.ledger, self.backbone = ledger, backbone
        self._events = backbone.arrivals()

    def send(self, message) -> None:
        self.backbone.send(self.ledger.peer_id, message)

    async def answer(self):
        with trio.fail_after(60):
            async for event in self._events:
                if isinstance(event, Arrived):
                    return event.message
        raise AssertionError

    async def ask(self, message):
        self.send(message)
        return await self.answer()

    async def tab(self, **order):
        grant = await self.ask(self.request(**order))
        assert grant.error == ""
        return self.world.tab(IssuedGrant(raw=grant.grant, signature=grant.signature))

    def request(self, **order) -> wire.GrantRequest:
        made = self.world.order(**order)
        return wire.GrantRequest(
            request=made.request,
            worker=made.worker,
            ceiling_uc=made.ceiling_uc,
            price_table=made.price_table,
            price_signature=made.price_signature,
        )


@asynccontextmanager
async def scene(path):
    world = World()
    world.backbone = _party(Identity.generate())
    network = MemoryNetwork()
    identity = Identity.generate()
    world.ledger = _party(identity)
    store = open_store(
        path,
        identity,
        network=world.network.id,
        market=world.market.id,
        clock=SystemClock(),
        opening_credit_uc=10**9,
    )
    with store:
        async with (
            network.open_node(NodeSettings(identity=identity, role=Role.LEDGER)) as one,
            network.open_node(
                NodeSettings(identity=world.backbone.identity, role=Role.BACKBONE)
            ) as other,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(LedgerService(one, store).run)
            yield Scene(world, store, one, other)
            nursery.cancel_scope.cancel()


def _party(identity: Identity) -> Party:
    party = Party("placeholder")
    party.identity, party.id, party.sign = identity, identity.peer_id, identity.sign
    return party


def file_of(signed, block) -> wire.File:
    return wire.File(
        voucher=signed.raw,
        worker_signature=signed.worker_signature,
        backbone_signature=signed.backbone_signature,
        leaves=block,
    )


@trio_test
async def test_grants_and_filings_are_answered_and_durable(tmp_path):
    async with scene(tmp_path) as s:
        request = s.request(ceiling_uc=5000)
        grant = await s.ask(request)
        assert grant.request == request.request
        granted = verify_grant(grant.grant, grant.signature, s.world.ledger.id)
        assert granted.backbone == s.world.backbone.id
        tab = s.world.tab(IssuedGrant(raw=grant.grant, signature=grant.signature))
        signed, block = tab.next(0, 1, 2)
        filed = await s.ask(file_of(signed, block))
        assert filed.voucher_hash == voucher_hash(signed.raw)
        assert (filed.status, filed.reason) == (FiledStatus.STORED, "")
        again = await s.ask(file_of(signed, block))
        assert again.status == FiledStatus.DUPLICATE
        report = verify_ledger(s.store.reader(), s.store.owner)
        assert report.earned_uc == tab.previous.amount_uc


@trio_test
async def test_refusals_are_answers(tmp_path):
    async with scene(tmp_path) as s:
        over = await s.ask(s.request(ceiling_uc=10**9 + 1))
        assert (over.grant, over.signature) == (b"", b"")
        assert "needs 1000.000001" in over.error
        weak = dataclasses.replace(s.request(), worker=b"\x01" + bytes(31))
        assert "small order" in (await s.ask(weak)).error
        tab = await s.tab()
        signed, block = tab.next(0)
        forged = dataclasses.replace(file_of(signed, block), backbone_signature=b"")
        filed = await s.ask(forged)
        assert filed.status == FiledStatus.REJECTED
        assert filed.reason.startswith("signature: ")
        noise = await s.ask(dataclasses.replace(forged, voucher=b"noise"))
        assert (noise.status, noise.reason[:7]) == (FiledStatus.REJECTED, "format:")
        # What is no business of a ledger is not answered, and harms nothing.
        s.send(
            wire.Countersign(voucher_hash=bytes(32), backbone_signature=b"", error="")
        )
        assert (await s.ask(file_of(signed, block))).status == FiledStatus.STORED


@trio_test
async def test_vouchers_of_one_peer_keep_their_order(tmp_path):
    async with scene(tmp_path) as s:
        tab = await s.tab()
        made = [tab.next(n) for n in range(40)]
        for signed, block in made:
            s.send(file_of(signed, block))
        answers = [await s.answer() for _ in made]
        assert {a.status for a in answers} == {FiledStatus.STORED}
        assert [a.voucher_hash for a in answers] == [
            voucher_hash(signed.raw) for signed, _ in made
        ]


@trio_test
async def test_what_finds_no_room_may_be_sent_again(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MAX_WAITING", 0)
    async with scene(tmp_path) as s:
        # The worker waits for its first request, so one goes through at a time.
        await trio.testing.wait_all_tasks_blocked()
        tab = s.world.tab(s.store.grant(s.world.order()).result(60))
        made = [tab.next(n) for n in range(5)]
        for signed, block in made:
            s.send(file_of(signed, block))
        answers = [await s.answer() for _ in made]
        assert "busy" in {a.reason for a in answers if a.status == FiledStatus.RETRY}


@trio_test
async def test_a_store_in_trouble_says_try_again(tmp_path, monkeypatch, caplog):
    async with scene(tmp_path) as s:
        tab = await s.tab()
        signed, block = tab.next(0)

        def busy(*_: object) -> None:
            raise StoreBusy("waited long")

        monkeypatch.setattr(s.store, "file", busy)
        answer = await s.ask(file_of(signed, block))
        assert (answer.status, answer.reason) == (FiledStatus.RETRY, "waited long")
        monkeypatch.setattr(s.store, "grant", busy)
        assert (await s.ask(s.request())).error == "waited long"
        monkeypatch.undo()
        assert (await s.ask(file_of(signed, block))).status == FiledStatus.STORED
    assert "not taken: waited long" in caplog.text


@trio_test
async def test_a_bug_in_the_store_is_no_end(tmp_path, monkeypatch, caplog):
    async with scene(tmp_path) as s:
        real = s.store._writer.submit
        monkeypatch.setattr(s.store, "grant", lambda _: real(lambda _: 1 // 0))
        assert "see its log" in (await s.ask(s.request())).error
        monkeypatch.undo()
        assert (await s.ask(s.request())).error == ""
    assert "writes failed" in caplog.text


@trio_test
async def test_what_is_due_is_done_again_and_again(tmp_path, monkeypatch, caplog):
    outcomes = [StoreBusy("busy"), LedgerError("not as signed"), ValueError("a bug")]
    all_done = threading.Event()

    def chore():
        if outcomes:
            raise outcomes.pop(0)
        all_done.set()

    monkeypatch.setattr(module, "_TEND_PERIOD_S", 0.0)
    monkeypatch.setattr(Store, "tend", lambda _: chore())
    async with scene(tmp_path) as s:
        await trio.to_thread.run_sync(all_done.wait, 30)
        assert (await s.ask(s.request())).error == ""
    for line in ("put off: busy", "need a look: not as signed", "a chore of the"):
        assert line in caplog.text


@asynccontextmanager
async def market_beside(path, *, paid_us):
    """A ledger, its market's node, and a worker whose first voucher is filed."""
    world, network = World(), MemoryNetwork()
    world.market, world.ledger = (_party(Identity.generate()) for _ in range(2))
    ids = {"network": world.network.id, "market": world.market.id}
    store = open_store(path, world.ledger.identity, **ids, clock=SystemClock())
    nodes = (
        NodeSettings(identity=world.ledger.identity, role=Role.LEDGER),
        NodeSettings(identity=world.market.identity, role=Role.MARKET),
    )
    with store:
        store.fund(world.backbone.id, 10**9, "test").result(60)
        store.operate("policy.set", {"standby_uc": 10**6, "commit": True}).result(60)
        fill_pot(store, 10**6)
        world.now_us = SystemClock().wall_us()
        served(store, world, world.worker)
        async with (
            network.open_node(nodes[0]) as ledger,
            network.open_node(nodes[1]) as market,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(LedgerService(ledger, store, paid_us=paid_us).run)
            yield Scene(world, store, ledger, market)
            nursery.cancel_scope.cancel()


@trio_test
async def test_a_standby_paper_is_answered_when_it_is_booked(tmp_path):
    async with market_beside(tmp_path, paid_us=3_600_000_000) as s:
        paper = paper_of(s.world, s.world.worker)
        raw = paper.pack()
        message = Standby(paper=raw, signature=sign_standby(raw, s.world.market.sign))
        for _ in range(2):
            answer = await s.ask(message)
            while not isinstance(answer, Booked):
                answer = await s.answer()
            assert answer == Booked(name=paper.content_hash, error="")
        assert held(s.store, AccountKind.STANDBY) < 10**6
        verify_ledger(s.store.reader(), s.store.owner)


@trio_test
async def test_the_market_is_told_what_was_paid_for(tmp_path):
    async with market_beside(tmp_path, paid_us=1000) as s:
        told = await s.answer()
        assert isinstance(told, Paid)
        borders = told.to_us - told.from_us, told.from_us % 1000
        assert (told.manifest_hash, *borders) == (s.world.manifest_hash, 1000, 0)
        assert dict(told.counts) == {ExpertId(0, 0): 1, ExpertId(1, 1): 2}


def test_a_folder_in_use_is_one_line(tmp_path):
    world, identity = World(), Identity.generate()
    ids = {"network": world.network.id, "market": world.market.id}
    with open_store(tmp_path, identity, **ids, clock=SystemClock()):
        with pytest.raises(FolderInUse):
            open_store(tmp_path, identity, **ids, clock=SystemClock())
