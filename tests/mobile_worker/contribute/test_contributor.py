"""Everything else that arrives: money, blobs, greetings, peers that come and go."""

from pathlib import Path

import pytest
import trio

from ledger.voucher import Voucher
from mobile_worker import messages
from mobile_worker.links.events import LostReason, PeerBack
from mobile_worker.messages import MessageType, OutputError
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test
from tests.support.worker_stage import open_stage


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


@trio_test(autojump=True)
async def test_no_grant_no_serving_and_a_foreign_grant_is_none(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker():
        worker = await stage.held()
        stage.hello(worker)
        tab = (await stage.backbone.hear(messages.Hello)).tab
        first = await stage.ask(worker, stage.model.dispatch(0, tab=tab))
        assert first.error == OutputError.NO_GRANT
        stage.grant(worker, worker=b"w" * 32)
        stage.grant(worker, price_table_hash=bytes(32))
        second = await stage.ask(worker, stage.model.dispatch(1, tab=tab))
        assert second.error == OutputError.NO_GRANT
        stage.grant(worker)
        third = await stage.ask(worker, stage.model.dispatch(2, tab=tab))
        assert third.error == OutputError.OK


@trio_test(autojump=True)
async def test_the_float_stops_a_backbone_that_signs_nothing(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        stage.signs = False
        async with stage.worker(drain_s=0.5):
            worker = await stage.held()
            stage.hello(worker)
            tab = (await stage.backbone.hear(messages.Hello)).tab
            stage.grant(worker, float_leaves=5)
            errors = [
                (await stage.ask(worker, stage.model.dispatch(at, tab=tab))).error
                for at in range(8)
            ]
            assert errors == [OutputError.OK] * 5 + [OutputError.NO_GRANT] * 3


@trio_test(autojump=True)
async def test_b32_a_backbone_that_restarts_a_hundred_times(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        worker, tab = await stage.serving()
        tabs = {tab}
        backbone = stage.money.backbone.peer_id
        for _ in range(100):
            output = await stage.ask(worker, stage.model.dispatch(0, tab=tab))
            assert output.error == OutputError.OK
            stage.accept(worker, tab, (0, 0))
            stage.network.disconnect(backbone, LostReason.RESTARTED)
            await trio.sleep(0.5)
            stage.network.reconnect(backbone)
            stage.hello(worker)
            tab = (await stage.backbone.hear(messages.Hello)).tab
            tabs.add(tab)
            await trio.sleep(3)
        assert len(tabs) == 101
        assert not running.ended.is_set()
        assert running.facts[-1].signed == 100
    vouchers = [Voucher.parse(f.voucher) for f in stage.ledger.all(messages.File)]
    assert sum(voucher.leaves for voucher in vouchers if voucher.final) == 100


@trio_test(autojump=True)
async def test_a_backbone_that_knows_its_tab_goes_on_with_it(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker():
        worker, tab = await stage.serving()
        await stage.ask(worker, stage.model.dispatch(0, tab=tab))
        stage.hello(worker, tab=tab)
        assert (await stage.backbone.hear(messages.Hello)).tab == tab


@trio_test(autojump=True)
async def test_strangers_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        worker, tab = await stage.serving()
        ledger = stage.ledger.node
        ledger.send(worker, stage.model.dispatch(0, tab=tab))
        output = await stage.ledger.hear(messages.Output)
        assert output.error == OutputError.NO_GRANT
        stage.hello(worker, profile=9)
        refusal = await stage.backbone.hear(messages.Refused)
        assert (refusal.what, refusal.reason) == (
            MessageType.HELLO,
            "unknown profile 9",
        )
        for message in (
            messages.Accept(tab=tab, ranges=((0, 2**32 - 1),)),
            messages.Countersign(
                voucher_hash=bytes(32), backbone_signature=bytes(64), error=""
            ),
            messages.Renew(lease=stage.lease_id),
            messages.Release(lease=stage.lease_id, experts=(), reason=""),
            messages.Draining(reason="go away"),
            messages.Busy(request=1, queued=1, retry_ms=1),
            messages.Cancel(request=1),
            messages.Filed(voucher_hash=bytes(32), status=0, reason=""),
        ):
            ledger.send(worker, message)
        output = await stage.ask(worker, stage.model.dispatch(1, tab=tab))
        assert output.error == OutputError.OK
        assert running.facts[-1].n_held == 8


@trio_test(autojump=True)
async def test_it_gives_its_shards_to_others(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker():
        worker = await stage.held()
        expert = stage.leased[0]
        get = messages.Get(
            request=9, digest=stage.model.digest(expert), offset=100, length=50
        )
        stage.ledger.node.send(worker, get)
        blob = await stage.ledger.hear(messages.Blob)
        assert blob.body == stage.model.shards[expert][100:150]


@trio_test(autojump=True)
async def test_a_draining_backbone_gets_final_vouchers(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker():
        worker, tab = await stage.serving()
        await stage.ask(worker, stage.model.dispatch(0, tab=tab))
        stage.accept(worker, tab, (0, 0))
        stage.backbone.node.send(worker, messages.Draining(reason="the backbone ends"))
        await trio.sleep(1)
        (voucher,) = stage.backbone.all(messages.Voucher)
        assert Voucher.parse(voucher.voucher).final
        stage.hello(worker, tab=tab)
        assert (await stage.backbone.hear(messages.Hello)).tab != tab


@trio_test(autojump=True)
async def test_b32_a_cut_of_3_seconds_loses_no_answer(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker():
        worker, tab = await stage.serving()
        backbone = stage.money.backbone.peer_id
        dispatch = stage.model.dispatch(0, tab=tab)
        stage.network.drop_next(worker, backbone)
        stage.backbone.node.send(worker, dispatch)
        await trio.sleep(3)
        assert stage.backbone.all(messages.Output) == []
        output = await stage.ask(worker, dispatch)
        assert output.error == OutputError.OK
        stage.accept(worker, tab, (0, 0))
        file = await stage.ledger.hear(messages.File)
        assert Voucher.parse(file.voucher).leaves == 1


@trio_test(autojump=True)
async def test_what_waits_is_filed_and_offered_when_its_peer_is_back(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage, stage.worker():
        stage.files = False
        worker, tab = await stage.serving()
        await stage.ask(worker, stage.model.dispatch(0, tab=tab))
        stage.accept(worker, tab, (0, 0))
        await trio.sleep(100)  # the pauses have grown to a minute
        n_filed = len(stage.ledger.all(messages.File))
        n_offered = len(stage.market.all(messages.Offer))
        node = stage.network._nodes[worker]
        for peer in (stage.ledger.node.peer_id, stage.market.node.peer_id, worker):
            node.tell(PeerBack(peer))
        await trio.sleep(1)
        assert len(stage.ledger.all(messages.File)) == n_filed + 1
        assert len(stage.market.all(messages.Offer)) == n_offered + 1
        stage.files = True


@trio_test(autojump=True)
async def test_a_worker_that_ends_files_without_a_pause(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        async with stage.worker(drain_s=5.0):
            stage.files = False
            worker, tab = await stage.serving()
            await stage.ask(worker, stage.model.dispatch(0, tab=tab))
            stage.accept(worker, tab, (0, 0))
            await trio.sleep(100)
            n_filed = len(stage.ledger.all(messages.File))
            stage.files = True
        assert len(stage.ledger.all(messages.File)) > n_filed
