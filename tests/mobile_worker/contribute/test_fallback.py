"""Without a market: leases go on, and a worker without any asks those it knows."""

import dataclasses
from pathlib import Path

import pytest
import trio

from mobile_worker import messages
from mobile_worker.contribute import fallback
from mobile_worker.contribute.fallback import fallback_lease_id
from mobile_worker.contribute.rendezvous import choose_experts
from mobile_worker.links.events import LostReason, PeerBack
from mobile_worker.shards.desk import placement_blob
from relay.keys import PeerId
from relay.tokens import Role
from tests.support.inline_threads import inline_threads
from tests.support.market_peers import identity_of, record_of
from tests.support.trio_test import trio_test
from tests.support.worker_stage import Stage, open_stage


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


def market_leaves(stage: Stage) -> None:
    stage.network.disconnect(stage.money.market.peer_id, LostReason.GONE)


def market_returns(stage: Stage) -> None:
    stage.network.reconnect(stage.money.market.peer_id)


def placement(stage: Stage, *holders: messages.Holder) -> messages.Placement:
    table, signature = stage.money.signed_prices(stage.prices)
    return messages.Placement(
        manifest_hash=stage.model.name,
        serial=1,
        price_table=table,
        price_signature=signature,
        holders=holders,
    )


def answers_offers(stage: Stage, told: messages.Placement) -> None:
    """Have the backbone do as one does whose market is away."""
    before = stage.backbone.answer
    joined: set[PeerId] = set()

    def answer(peer: PeerId, message: messages.Message) -> None:
        is_asked = isinstance(message, messages.Get) and not message.length
        if isinstance(message, messages.Offer):
            joined.add(peer)
        elif is_asked and message.digest == told.manifest_hash and peer in joined:
            stage.backbone.node.send(peer, placement_blob(message, told))
        else:
            before(peer, message)

    stage.backbone.answer = answer


async def until_held(stage: Stage, n: int) -> messages.Held:
    while True:
        held = await stage.backbone.hear(messages.Held, within_s=120)
        if len(held.experts) == n:
            return held


@trio_test(autojump=True)
async def test_leases_go_on_without_the_market_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fallback.MAX_AWAY_S == 24 * 3600
    monkeypatch.setattr(fallback, "MAX_AWAY_S", 300.0)
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        worker, tab = await stage.serving()
        market_leaves(stage)
        await trio.sleep(200)  # five terms
        assert running.facts[-1].n_held == 8
        output = await stage.ask(worker, stage.model.dispatch(0, tab=tab))
        assert output.error == 0
        await trio.sleep(200)
        assert running.facts[-1].n_leased == 0


@trio_test(autojump=True)
async def test_a_market_that_returns_confirms_or_ends_what_was_kept(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        await stage.held()
        market_leaves(stage)
        await trio.sleep(100)
        stage.market.heard.clear()
        stage.leased = stage.leased[:3]
        market_returns(stage)
        await stage.held()
        await trio.sleep(5)
        assert running.facts[-1].n_leased == running.facts[-1].n_held == 3


@trio_test(autojump=True)
async def test_who_starts_without_a_market_works_for_the_backbone_it_knows(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage:
        async with stage.worker():
            await stage.held()
            await trio.sleep(5)  # its leases are on disk by then
        market_leaves(stage)
        stage.backbone.heard.clear()
        answers_offers(stage, placement(stage))
        async with stage.worker() as running:
            held = await until_held(stage, 8)
            worker = running.started[0].peer_id
            backbone = stage.money.backbone.peer_id
            name = fallback_lease_id(worker, backbone, stage.model.name)
            assert held.lease == name
            # Warm: not a byte of a shard was fetched.
            gets = stage.backbone.all(messages.Get)
            assert [get for get in gets if get.length] == []
            stage.hello(worker)
            ack = await stage.backbone.hear(messages.Hello)
            stage.grant(worker)
            output = await stage.ask(worker, stage.model.dispatch(0, tab=ack.tab))
            assert output.error == 0
            # The market is back: its lease takes the place of ours.
            stage.market.heard.clear()
            stage.leased = stage.leased[:2]
            market_returns(stage)
            await stage.held()
            await trio.sleep(5)
            assert running.facts[-1].n_leased == 2
            assert not [h for h in stage.market.all(messages.Held) if h.lease == name]


@trio_test(autojump=True)
async def test_it_chooses_what_fits_and_what_few_hold(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        async with stage.worker():
            await stage.held()
            await trio.sleep(5)
        market_leaves(stage)
        record = record_of(identity_of("other"), Role.WORKER).encoded
        many = messages.Holder(record=record, device_class=0, experts=stage.leased[:6])
        holders = (many, *[dataclasses.replace(many, record=b"junk")] * 5)
        answers_offers(stage, placement(stage, *holders[:1]))
        size = len(stage.model.shards[stage.leased[0]])
        memory = 3 * size * 4 // 3 + 4
        stage.backbone.heard.clear()
        async with stage.worker(memory_bytes=memory) as running:
            held = await until_held(stage, 3)
            worker = running.started[0].peer_id
        sizes = [(expert, len(stage.model.shards[expert])) for expert in stage.leased]
        few_hold = choose_experts(
            worker, sizes, dict.fromkeys(many.experts, 1), 3 * size
        )
        assert held.experts == few_hold


@trio_test(autojump=True)
async def test_a_backbone_that_is_not_asked_or_lies_leases_nothing(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage:
        async with stage.worker():
            await stage.held()
            await trio.sleep(5)
        told = placement(stage)
        stage.lend = False
        async with stage.worker() as running:
            await running.joined.wait()
            worker = running.started[0].peer_id
            stage.backbone.node.send(worker, told)  # the market is there
            await trio.sleep(20)
            assert running.facts[-1].n_leased == 0
        market_leaves(stage)
        unsigned = dataclasses.replace(told, price_signature=bytes(64))
        answers_offers(stage, unsigned)
        async with stage.worker() as running:
            await stage.backbone.hear(messages.Offer, within_s=120)
            await trio.sleep(10)
            assert running.facts[-1].n_leased == 0


@trio_test(autojump=True)
async def test_a_market_that_is_back_and_knows_no_lease_ends_it(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        worker = await stage.held()
        market_leaves(stage)
        await trio.sleep(100)
        assert running.facts[-1].n_leased == 8
        stage.lend = False
        market_returns(stage)
        stage.network._nodes[worker].tell(PeerBack(stage.money.market.peer_id))
        await stage.market.hear(messages.Renew)
        refused = messages.Refused(
            what=int(messages.MessageType.RENEW), reason="unknown lease"
        )
        stage.market.node.send(worker, refused)
        await trio.sleep(15)
        assert running.facts[-1].n_leased == 0
