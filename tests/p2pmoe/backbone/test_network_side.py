"""Events go to the right part, and nothing that a peer says ends the service."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from mobile_worker import messages
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.events import (
    Arrived,
    LostReason,
    PeerBack,
    PeerLost,
    RelayChanged,
    Undelivered,
    UndeliveredReason,
)
from mobile_worker.links.node import NodeSettings
from mobile_worker.session.identity import Identity
from p2pmoe.backbone.fleet import Status
from p2pmoe.backbone.network_side import MAX_OF_WORKER, NetworkSide
from p2pmoe.backbone.prefetch.fetch_work import FetchWork, Lack, Wanted
from relay.keys import PeerId
from relay.tokens import Role
from tests.support.backbone_model import (
    POCKET,
    Backbone,
    local_side,
    manifest_of,
    scattered_backbone,
    shards_of,
)
from tests.support.market_peers import identity_of, offer_of
from tests.support.memory_worker import MemoryWorker, World
from tests.support.nodes import until
from tests.support.trio_test import trio_test

HELD = {ExpertId(1, 0), ExpertId(2, 5)}


@dataclasses.dataclass
class Rig:
    world: World
    worker: MemoryWorker
    backbone: Backbone

    @property
    def side(self) -> NetworkSide:
        return self.backbone.joined.side

    @property
    def peer(self) -> PeerId:
        return self.worker.identity.peer_id

    @property
    def status(self) -> Status:
        return self.backbone.joined.fleet.workers[self.peer].status

    def say(self, message: messages.Message, peer: PeerId | None = None) -> None:
        self.side.take(Arrived(peer or self.peer, message, 100))

    def hello(self, **changes: object) -> messages.Hello:
        values: dict[str, object] = {
            "versions": (1,),
            "manifest_hash": self.world.digest,
            "profile": 1,
            "self_test": SELF_TEST_DIGEST,
            "max_rows": 64,
            "tab": b"tab-tab-",
            "ack": True,
        }
        return messages.Hello(**(values | changes))


@asynccontextmanager
async def rig_of(folder: Path) -> AsyncIterator[Rig]:
    world = World(manifest_of(POCKET), folder)
    async with world.services(), AsyncExitStack() as stack:
        worker = await stack.enter_async_context(
            world.worker(NumpyKernel(), shards_of(POCKET, HELD))
        )
        side = local_side(POCKET, hot_share=0.0)
        backbone = await stack.enter_async_context(scattered_backbone(world, side))
        await backbone.covers(HELD)
        yield Rig(world, worker, backbone)


@trio_test
async def test_a_placement_greets_and_a_loss_takes_away(tmp_path: Path) -> None:
    async with rig_of(tmp_path) as rig:
        assert rig.status is Status.LIVE
        rig.side.take(PeerLost(rig.peer, LostReason.GONE))
        assert rig.status is Status.GONE
        assert rig.backbone.joined.fleet.covered() == set()
        rig.side.take(PeerLost(Identity.generate().peer_id, LostReason.GONE))


@pytest.mark.parametrize("reason", list(UndeliveredReason))
@trio_test
async def test_what_is_not_delivered_is_asked_elsewhere(
    tmp_path: Path, reason: UndeliveredReason
) -> None:
    async with rig_of(tmp_path) as rig:
        rig.side.take(Undelivered(rig.peer, reason))
        assert rig.status is not Status.LIVE
        rig.side.take(Undelivered(Identity.generate().peer_id, reason))


@pytest.mark.parametrize("changes", [{"self_test": bytes(32)}, {"versions": (2, 3)}])
@trio_test
async def test_a_worker_that_computes_or_speaks_differently_is_dropped(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    async with rig_of(tmp_path) as rig:
        rig.say(rig.hello(**changes))
        assert rig.status is Status.DROPPED
        rig.say(rig.hello())
        assert rig.status is Status.DROPPED


@trio_test
async def test_hellos_of_other_models_or_strangers_open_no_tab(tmp_path: Path) -> None:
    async with rig_of(tmp_path) as rig:
        settlement = rig.backbone.joined.settlement
        before = settlement.tab_of(rig.peer)
        rig.say(rig.hello(manifest_hash=bytes(32), tab=b"other-tb"))
        rig.say(rig.hello(tab=b""))
        assert settlement.tab_of(rig.peer) == before
        stranger = Identity.generate().peer_id
        rig.say(rig.hello(), stranger)
        assert settlement.tab_of(stranger) == b""
        rig.say(rig.hello(tab=b"other-tb", ack=False))
        assert settlement.tab_of(rig.peer) == b"other-tb"


@trio_test
async def test_b25_only_the_market_places_and_only_the_ledger_grants(
    tmp_path: Path,
) -> None:
    async with rig_of(tmp_path) as rig:
        empty = messages.Placement(
            manifest_hash=rig.world.digest,
            serial=10_000,
            price_table=b"t",
            price_signature=bytes(64),
            holders=(),
        )
        rig.say(empty)
        rig.say(messages.Grant(request=1, grant=b"g", signature=bytes(64), error=""))
        rig.say(messages.Filed(voucher_hash=bytes(32), status=0, reason=""))
        rig.say(messages.Accept(tab=bytes(8), ranges=((0, 1),)))
        await trio.testing.wait_all_tasks_blocked()
        assert rig.backbone.joined.fleet.covered() == HELD
        rig.say(empty, rig.world.market_identity.peer_id)  # with a table of nobody
        with trio.fail_after(60):  # its signature is checked in a thread
            while rig.backbone.joined.fleet.covered():  # noqa: ASYNC110
                await trio.sleep(0.002)


@trio_test
async def test_a_draining_worker_gets_nothing_new(tmp_path: Path) -> None:
    async with rig_of(tmp_path) as rig:
        rig.say(messages.Draining(reason="sleep"))
        assert rig.status is Status.GONE
        assert rig.backbone.joined.fleet.to_greet(0.0) == []


@trio_test
async def test_the_relay_and_a_new_market_hear_everything_again(tmp_path: Path) -> None:
    async with rig_of(tmp_path) as rig:
        market = rig.world.market_identity.peer_id
        n_demands = len(rig.world.market.demands)
        for event in (
            RelayChanged(up=False, detail="cut"),
            RelayChanged(up=True, detail="back"),
            PeerLost(market, LostReason.RESTARTED),
            PeerBack(market),
            PeerBack(rig.world.ledger_identity.peer_id),
            PeerBack(rig.peer),
            Arrived(market, messages.Refused(what=9, reason="unknown manifest"), 10),
        ):
            rig.side.take(event)
        with trio.fail_after(60):
            while len(rig.world.market.demands) == n_demands:
                await trio.testing.wait_all_tasks_blocked(0.01)


@trio_test
async def test_shards_are_answered_and_a_crowd_is_told_to_wait(tmp_path: Path) -> None:
    async with rig_of(tmp_path) as rig:
        got: list[messages.Blob] = []
        node = rig.side._parts.node
        sending = node.send

        def listen(peer: PeerId, message: messages.Message) -> None:
            if isinstance(message, messages.Blob):
                got.append(message)
            else:
                sending(peer, message)

        rig.side._send = listen
        entry = rig.world.manifest.experts[0]
        crowd = [Identity.generate().peer_id for _ in range(6)]
        for request in range(300):
            rig.say(
                messages.Get(request=request, digest=entry.digest, offset=0, length=64),
                crowd[request % 6],
            )
        assert {blob.error for blob in got} == {messages.BlobError.BUSY}
        with trio.fail_after(60):
            while len(got) < 300:
                await trio.testing.wait_all_tasks_blocked(0.01)
        assert sum(blob.error == messages.BlobError.OK for blob in got) >= 256
        assert all(len(b.body) == 64 for b in got if not b.error)


@trio_test
async def test_vouchers_of_strangers_and_of_the_loud_leave_room(tmp_path: Path) -> None:
    async with rig_of(tmp_path) as rig:
        voucher = messages.Voucher(
            voucher=bytes(500), worker_signature=bytes(64), leaves=b""
        )
        waiting = rig.side._vouchers
        for _ in range(300):
            rig.say(voucher, Identity.generate().peer_id)
        assert len(waiting) == 0
        for _ in range(300):
            rig.say(voucher)
        assert 0 < len(waiting) <= MAX_OF_WORKER


@trio_test
async def test_gets_of_one_peer_leave_room(tmp_path: Path) -> None:
    async with rig_of(tmp_path) as rig:
        said: list[messages.Message] = []
        rig.side._send = lambda _peer, message: said.append(message)
        digest = rig.world.manifest.experts[0].digest
        get = messages.Get(request=1, digest=digest, offset=0, length=64)
        for _ in range(300):
            rig.say(get, Identity.generate().peer_id if len(said) > 100 else None)
        assert len(said) == 101  # the rest were of others, and wait


@trio_test
async def test_weights_come_by_hash_and_a_lost_worker_is_told(tmp_path: Path) -> None:
    async with rig_of(tmp_path) as r:
        fetching = r.backbone.places.network.fetching
        wanted = tuple(Wanted(expert=e, peer=r.peer) for e in sorted(HELD))
        work, lost = FetchWork(wanted=wanted), FetchWork(wanted=wanted)
        await trio.to_thread.run_sync(fetching.start, work)
        replies = [await trio.to_thread.run_sync(work.replies.get) for _ in wanted]
        shards = shards_of(POCKET, HELD)
        assert {r.wanted.expert: bytes(r.shard) for r in replies} == shards
        r.worker.spoil = lambda blob: None
        await trio.to_thread.run_sync(fetching.start, lost)
        await trio.testing.wait_all_tasks_blocked(0.01)
        r.side.take(PeerLost(r.peer, LostReason.GONE))
        assert [lost.replies.get().why for _ in wanted] == [Lack.LOST] * 2


@trio_test
async def test_only_the_ledger_is_shown_rows(tmp_path: Path, monkeypatch) -> None:
    async with rig_of(tmp_path) as rig:
        sent = []
        monkeypatch.setattr(rig.side, "_send", lambda *each: sent.append(each))
        question = messages.Open(voucher_hash=bytes(32), tab=b"tab-tab-", serving=7)
        market = rig.world.market_identity.peer_id
        for peer in (rig.peer, market, Identity.generate().peer_id):
            rig.say(question, peer)
        assert sent == []
        ledger = rig.world.ledger_identity.peer_id
        rig.say(question, ledger)
        [(peer, answer)] = sent
        assert (peer, answer.serving) == (ledger, 7)
        assert (answer.rows, answer.reason) == (b"", "not kept any more")


@trio_test
async def test_without_its_market_it_goes_on_and_takes_a_worker_in(
    tmp_path: Path,
) -> None:
    async with rig_of(tmp_path) as rig:
        market = rig.world.market_identity.peer_id
        joiner = identity_of("joiner")
        offer = offer_of(joiner, 4, self_test=SELF_TEST_DIGEST)
        held = messages.Held(lease=b"lease-01", experts=(ExpertId(2, 7),))
        rig.say(offer, joiner.peer_id)
        rig.say(held, joiner.peer_id)
        fleet = rig.backbone.joined.fleet
        assert joiner.peer_id not in fleet.workers  # that is the market's business
        rig.side.take(PeerLost(market, LostReason.GONE))
        assert rig.status is Status.LIVE
        rig.say(offer, joiner.peer_id)
        rig.say(held, joiner.peer_id)
        assert fleet.workers[joiner.peer_id].status is Status.GREETING
        assert rig.status is Status.LIVE
        rig.world.market.place()  # it is back, and knows of no joiner
        await until(lambda: not fleet.workers[joiner.peer_id].placed)
        assert rig.status is Status.LIVE


@trio_test
async def test_who_starts_without_a_market_greets_those_of_the_last_placement(
    tmp_path: Path,
) -> None:
    world, kept = World(manifest_of(POCKET), tmp_path), tmp_path / "last"
    side = local_side(POCKET, hot_share=0.0)
    async with world.worker(NumpyKernel(), shards_of(POCKET, HELD)) as worker:
        async with (
            world.services(),
            scattered_backbone(world, side, last_placement=kept) as backbone,
        ):
            await backbone.covers(HELD)
            await until(kept.exists)
        world.market.backbone = None  # and the market is gone
        async with scattered_backbone(world, side, last_placement=kept) as backbone:
            fleet, peer = backbone.joined.fleet, worker.identity.peer_id
            await until(lambda: peer in fleet.workers)
            await until(lambda: fleet.workers[peer].status is Status.LIVE)


@trio_test
async def test_who_asks_for_no_bytes_is_told_who_has_them(tmp_path: Path) -> None:
    async with rig_of(tmp_path) as rig:
        digest = rig.world.manifest.experts[0].digest
        asker = Identity.generate()
        heard: list[messages.Blob] = []
        settings = NodeSettings(identity=asker, role=Role.WORKER)
        async with rig.world.network.open_node(settings) as node:
            backbone = rig.world.market.backbone
            assert backbone is not None
            get = messages.Get(request=3, digest=digest, offset=0, length=0)
            node.send(backbone, get)
            with trio.fail_after(60):
                async for event in node.arrivals():
                    if isinstance(event, Arrived):
                        assert isinstance(event.message, messages.Blob)
                        heard.append(event.message)
                        break
        assert heard[0].error == messages.BlobError.HOLDERS
