"""Offers, leases, renewals and reports against a market that misbehaves."""

from pathlib import Path

import pytest
import trio

from ledger.prices import sign_price_table
from mobile_worker import messages
from mobile_worker.links.events import LostReason
from mobile_worker.messages import MessageType
from relay.keys import PeerId
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test
from tests.support.worker_stage import Stage, open_stage


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


def times_of(stage: Stage, kind: type, since: int = 0) -> int:
    return len(stage.market.all(kind)) - since


@trio_test(autojump=True)
async def test_it_offers_until_a_lease_comes(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        stage.lend = False
        async with stage.worker() as running:
            await trio.sleep(100)
            assert 5 <= times_of(stage, messages.Offer) <= 8
            assert running.states[-1] == "idle_no_demand"
            stage.lend = True
            await stage.held()
            n_offers = times_of(stage, messages.Offer)
            await trio.sleep(100)
            assert times_of(stage, messages.Offer) == n_offers


@trio_test(autojump=True)
async def test_it_renews_for_as_long_as_it_works(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        await stage.held()
        await trio.sleep(300)
        assert times_of(stage, messages.Offer) == 1
        assert 18 <= times_of(stage, messages.Renew) <= 20
        assert running.states[-1] == "ready"


@trio_test(autojump=True)
async def test_a_market_that_forgot_gets_a_new_offer_and_all_reports(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage, stage.worker():
        worker = await stage.held()
        stage.market.heard.clear()
        refused = messages.Refused(what=int(MessageType.RENEW), reason="unknown lease")
        stage.market.node.send(worker, refused)
        await stage.market.hear(messages.Offer)
        await stage.held()
        assert times_of(stage, messages.Get) == 0


@trio_test(autojump=True)
async def test_a_market_that_refuses_reports_is_not_flooded(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        worker = await stage.held()
        stage.lend = False
        answer = stage.market.answer

        def forgotten(peer: PeerId, message: messages.Message) -> None:
            answer(peer, message)
            if isinstance(message, messages.Held):
                stage.market.node.send(peer, refused)

        refused = messages.Refused(what=int(MessageType.HELD), reason="offer again")
        stage.market.answer = forgotten
        stage.market.heard.clear()
        stage.market.node.send(worker, refused)
        await trio.sleep(9)
        assert times_of(stage, messages.Held) == 0
        assert 1 <= times_of(stage, messages.Offer) <= 3  # now, after 2 s, after 4 s
        stage.market.answer = answer
        stage.send_lease(worker)
        await stage.held()
        assert running.states[-1] == "ready"


@trio_test(autojump=True)
async def test_b28_a_lease_the_market_does_not_confirm_is_not_served(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage, stage.worker():
        worker, tab = await stage.serving()
        stage.lend = False
        refused = messages.Refused(what=int(MessageType.RENEW), reason="unknown lease")
        stage.market.node.send(worker, refused)
        await trio.sleep(12)
        output = await stage.ask(worker, stage.model.dispatch(0, tab=tab))
        assert output.error in {
            messages.OutputError.NOT_HELD,
            messages.OutputError.NO_GRANT,
        }
        stage.hello(worker)
        refusal = await stage.backbone.hear(messages.Refused)
        assert refusal.what == MessageType.HELLO


@trio_test(autojump=True)
async def test_b28_after_a_suspension_nothing_leased_is_believed(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage, stage.worker():
        await stage.held()
        stage.market.heard.clear()
        stage.clock.asleep_s += 7200
        with trio.fail_after(5):
            await stage.market.hear(messages.Offer)
            await stage.held()


@trio_test(autojump=True)
async def test_the_relay_back_or_the_market_back_means_to_offer(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        worker = await stage.held()
        stage.market.heard.clear()
        stage.network.disconnect(worker)
        await trio.sleep(5)
        assert running.states[-1] == "unreachable"
        assert stage.market.heard == []
        stage.network.reconnect(worker)
        await stage.held()
        assert running.states[-1] == "ready"
        stage.market.heard.clear()
        market = stage.money.market.peer_id
        stage.network.disconnect(market, LostReason.RESTARTED)
        await trio.sleep(3)
        stage.network.reconnect(market)
        await stage.held()


@trio_test(autojump=True)
async def test_b28_a_long_loss_of_the_relay_costs_no_lease(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        worker = await stage.held()
        stage.lend = False
        stage.market.heard.clear()
        stage.network.disconnect(worker)
        await trio.sleep(300)
        assert running.facts[-1].n_held == 8
        assert stage.market.heard == []
        stage.network.reconnect(worker)
        with trio.fail_after(2):
            await stage.market.hear(messages.Renew)
        await trio.sleep(300)  # the market says nothing: it knows the lease
        assert running.facts[-1].n_held == 8


@trio_test(autojump=True)
async def test_messages_lost_in_either_direction_are_made_good(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        market = stage.money.market.peer_id
        async with stage.worker() as running:
            await running.joined.wait()
            worker = running.started[0].peer_id
            stage.network.drop_next(market, worker, 2)
            await stage.held()


@trio_test(autojump=True)
async def test_a_smaller_lease_is_dropped_from_and_a_larger_fetched(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path, experts=4) as stage, stage.worker():
        worker, tab = await stage.serving()
        everything = tuple(sorted(stage.model.shards))
        stage.send_lease(worker, *everything[:2])
        await trio.sleep(1)
        output = await stage.ask(worker, stage.model.dispatch(0, ((3, (0,)),), tab=tab))
        assert output.error == messages.OutputError.NOT_HELD
        stage.leased = everything
        stage.send_lease(worker, *everything)
        await stage.held()
        output = await stage.ask(worker, stage.model.dispatch(9, ((3, (0,)),), tab=tab))
        assert output.error == messages.OutputError.OK


@trio_test(autojump=True)
async def test_a_release_by_the_market_ends_serving(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        worker, tab = await stage.serving()
        release = messages.Release(lease=stage.lease_id, experts=(), reason="moved")
        stage.market.node.send(worker, release)
        await trio.sleep(1)
        output = await stage.ask(worker, stage.model.dispatch(0, tab=tab))
        assert output.error != messages.OutputError.OK
        assert running.facts[-1].n_held == 0


@trio_test(autojump=True)
async def test_b39_a_lease_that_does_not_verify_is_not_taken(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        stage.lend = False
        async with stage.worker() as running:
            await stage.market.hear(messages.Offer)
            worker = running.started[0].peer_id
            raw, _ = stage.money.signed_prices(stage.prices)
            good = {
                "lease": stage.lease_id,
                "backbone": stage.money.backbone.peer_id,
                "backbone_record": stage.backbone.node.record.encoded,
                "manifest_hash": stage.model.name,
                "experts": stage.leased,
                "price_table": raw,
                "price_signature": sign_price_table(raw, stage.money.market.sign),
                "expires_in_s": 40,
            }
            for bad in (
                {"backbone": stage.money.ledger.peer_id},
                {"backbone_record": b"nonsense"},
                {"backbone_record": stage.market.node.record.encoded},
                {"price_signature": bytes(64)},
                {"price_table": b"nonsense"},
            ):
                stage.market.node.send(worker, messages.Lease(**(good | bad)))
            stage.backbone.node.send(worker, messages.Lease(**good))
            await trio.sleep(2)
            assert running.facts[-1].n_leased == 0
            stage.market.node.send(worker, messages.Lease(**good))
            await stage.held()
