import contextlib
import logging
from pathlib import Path
from random import Random

import pytest
import trio

from mobile_worker.clock import Clock
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.events import Arrived
from mobile_worker.links.memory import MemoryNetwork, MemoryNode
from mobile_worker.links.node import NodeSettings
from mobile_worker.messages import market as wire
from mobile_worker.messages.blobs import Blob, BlobError, Get
from mobile_worker.messages.envelope import MessageType
from mobile_worker.messages.membership import Cancel, Draining
from mobile_worker.shards.manifest import Manifest, manifest_hash, parse_manifest
from p2pmoe.market import service as service_module
from p2pmoe.market.book import Book, MarketSettings
from p2pmoe.market.deployments import sign_manifest
from p2pmoe.market.lease import TERM_S
from p2pmoe.market.remembered import Remembered, read_remembered
from p2pmoe.market.service import MarketService, ServiceSettings
from relay.keys import PeerId
from relay.tokens import Role
from tests.support.market_peers import (
    SELF_TEST,
    SHARD_BYTES,
    identity_of,
    make_manifest,
)
from tests.support.trio_test import trio_test

MODEL = make_manifest()
NAME = manifest_hash(MODEL)
ALL = {each.expert for each in MODEL.experts}
MARKET = identity_of("market").peer_id


class TrioClock:
    """Trio's own clock, so that the autojump clock drives the market."""

    def monotonic(self) -> float:
        return trio.current_time()

    def wall_us(self) -> int:
        return 1_000_000


CLOCK: Clock = TrioClock()


class Peer:
    """A node that keeps every message from the market."""

    def __init__(self, node: MemoryNode) -> None:
        self.node = node
        self.messages: list[object] = []
        self._news = trio.Event()

    async def listen(self) -> None:
        async for event in self.node.arrivals():
            if isinstance(event, Arrived):
                assert event.peer == MARKET
                self.messages.append(event.message)
                self._news.set()

    def send(self, message) -> None:
        self.node.send(MARKET, message)

    def all(self, kind):
        return [m for m in self.messages if isinstance(m, kind)]

    async def until(self, condition, within_s: float = 30.0):
        with trio.fail_after(within_s):
            while not (found := condition()):
                self._news = trio.Event()
                await self._news.wait()
            return found

    async def next(self, kind):
        n = len(self.all(kind))
        await self.until(lambda: len(self.all(kind)) > n)
        return self.all(kind)[-1]

    def offer(self, slots: int = 8, **changes) -> None:
        values = {
            "record": self.node.record.encoded,
            "memory_bytes": slots * SHARD_BYTES,
            "disk_bytes": 0,
            "rate_macs_s": 1,
            "up_bytes_s": 1,
            "down_bytes_s": 1,
            "device_class": 1,
            "domain": "",
            "models": (),
        }
        self.send(wire.Offer(**(values | changes)))

    async def lease(self) -> wire.Lease:
        await self.until(lambda: self.all(wire.Lease))
        return self.all(wire.Lease)[-1]

    def hold(self, lease: wire.Lease) -> None:
        self.send(wire.Held(lease=lease.lease, experts=lease.experts))

    def list_model(self, name: str, model: Manifest = MODEL) -> None:
        encoded = model.encode()
        signature = sign_manifest(encoded, identity_of(name).sign)
        record = self.node.record.encoded
        self.send(
            wire.ManifestNotice(
                manifest=encoded, signature=signature, backbone_record=record
            )
        )
        self.report(manifest_hash(model))

    def report(self, name: bytes, **changes) -> None:
        values = {"counts": (), "at_hand": (), "has_disk": True}
        self.send(wire.Demand(manifest_hash=name, **(values | changes)))

    async def covers(self, experts: set[ExpertId], n_holders: int) -> None:
        def is_so() -> bool:
            latest = self.all(wire.Placement)[-1:]
            holders = [h for p in latest for h in p.holders]
            held = {e for h in holders for e in h.experts}
            return held == experts and len(holders) == n_holders

        await self.until(is_so)


class World:
    def __init__(self, nursery: trio.Nursery) -> None:
        self.network = MemoryNetwork()
        self._nursery = nursery

    async def peer(self, name: str, role: Role, self_test: bytes = SELF_TEST) -> Peer:
        return await self._nursery.start(self._host, name, role, self_test)

    async def _host(self, name, role, self_test, *, task_status) -> None:
        settings = NodeSettings(
            identity=identity_of(name), role=role, self_test=self_test
        )
        async with self.network.open_node(settings, clock=CLOCK) as node:
            peer = Peer(node)
            task_status.started(peer)
            await peer.listen()


def make_book(remembered: Remembered) -> Book:
    settings = MarketSettings(
        network=identity_of("network").peer_id,
        sign=identity_of("market").sign,
        tie_salt=b"salt",
        first_serial=0,
        random=Random(7),
    )
    return Book(settings, remembered)


@contextlib.asynccontextmanager
async def market_on(network: MemoryNetwork, memory_file: Path | None = None):
    remembered = read_remembered(memory_file) if memory_file else Remembered()
    book = make_book(remembered)
    settings = NodeSettings(identity=identity_of("market"), role=Role.MARKET)
    async with network.open_node(settings, clock=CLOCK) as node:
        service = MarketService(
            node,
            book,
            CLOCK,
            ServiceSettings(self_test=SELF_TEST, memory_file=memory_file),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.run)
            yield book
            nursery.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def a_market(memory_file: Path | None = None):
    async with trio.open_nursery() as nursery:
        world = World(nursery)
        async with market_on(world.network, memory_file):
            yield world
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_from_offer_to_placement():
    async with a_market() as world:
        backbone = await world.peer("backbone", Role.BACKBONE)
        backbone.list_model("backbone")
        worker = await world.peer("worker", Role.WORKER)
        worker.offer()
        lease = await worker.lease()
        assert lease.backbone == backbone.node.peer_id
        assert lease.backbone_record == backbone.node.record.encoded
        assert set(lease.experts) == ALL
        worker.hold(lease)
        await backbone.covers(ALL, 1)
        holder = backbone.all(wire.Placement)[-1].holders[0]
        assert holder.record == worker.node.record.encoded


@trio_test(autojump=True)
async def test_a_worker_whose_arithmetic_differs_by_one_bit_is_refused():
    async with a_market() as world:
        wrong = bytes([SELF_TEST[0] ^ 1, *SELF_TEST[1:]])
        worker = await world.peer("worker", Role.WORKER, self_test=wrong)
        worker.offer()
        refused = await worker.next(wire.Refused)
        assert refused.what == MessageType.OFFER
        assert "computes other bits" in refused.reason


@trio_test(autojump=True)
async def test_the_manifest_is_given_out_by_its_hash_in_pieces():
    async with a_market() as world:
        backbone = await world.peer("backbone", Role.BACKBONE)
        backbone.list_model("backbone")
        await backbone.next(wire.Placement)
        worker = await world.peer("worker", Role.WORKER)
        body, total = b"", 1
        while len(body) < total:
            get = Get(request=7, digest=NAME, offset=len(body), length=100)
            worker.send(get)
            blob = await worker.next(Blob)
            assert (blob.request, blob.offset) == (7, len(body))
            body += blob.body
            total = blob.total
        assert parse_manifest(body) == MODEL
        for digest, offset, error in (
            (bytes(32), 0, BlobError.UNKNOWN),
            (NAME, len(body) + 1, BlobError.RANGE),
        ):
            worker.send(Get(request=1, digest=digest, offset=offset, length=1))
            assert (await worker.next(Blob)).error == error


@trio_test(autojump=True)
async def test_a_killed_worker_is_out_at_once_and_another_takes_over():
    async with a_market() as world:
        backbone = await world.peer("backbone", Role.BACKBONE)
        backbone.list_model("backbone")
        first = await world.peer("first", Role.WORKER)
        first.offer()
        first.hold(await first.lease())
        await backbone.covers(ALL, 1)
        before = trio.current_time()
        world.network.disconnect(first.node.peer_id)
        await backbone.covers(set(), 0)
        assert trio.current_time() - before < 0.05
        second = await world.peer("second", Role.WORKER)
        second.offer()
        second.hold(await second.lease())
        await backbone.covers(ALL, 1)


@trio_test(autojump=True)
async def test_b28_a_worker_that_falls_silent_is_out_within_its_term():
    async with a_market() as world:
        backbone = await world.peer("backbone", Role.BACKBONE)
        backbone.list_model("backbone")
        worker = await world.peer("worker", Role.WORKER)
        worker.offer()
        lease = await worker.lease()
        worker.hold(lease)
        await backbone.covers(ALL, 1)
        await trio.sleep(30)
        worker.send(wire.Renew(lease=lease.lease))
        await trio.sleep(TERM_S - 1)
        await backbone.covers(ALL, 1)
        world.network.cut(worker.node.peer_id, MARKET)
        await backbone.covers(set(), 0)
        world.network.heal(worker.node.peer_id, MARKET)
        worker.send(wire.Renew(lease=lease.lease))
        refused = await worker.next(wire.Refused)
        assert (refused.what, "offer again" in refused.reason) == (
            MessageType.RENEW,
            True,
        )
        worker.offer()
        assert (await worker.next(wire.Lease)) == lease


@trio_test(autojump=True)
async def test_gains_are_gathered_and_losses_told_at_once():
    async with a_market() as world:
        backbone = await world.peer("backbone", Role.BACKBONE)
        backbone.list_model("backbone")
        workers = [await world.peer(f"w{n}", Role.WORKER) for n in range(4)]
        for worker in workers:
            worker.offer(3)
        leases = [await worker.lease() for worker in workers]
        n_before = len(backbone.all(wire.Placement))
        for worker, lease in zip(workers, leases, strict=True):
            for expert in lease.experts:
                worker.send(wire.Held(lease=lease.lease, experts=(expert,)))
        await trio.sleep(1)
        assert len(backbone.all(wire.Placement)) == n_before + 1
        workers[0].send(Draining(reason="going home"))
        await trio.sleep(0.01)
        assert len(backbone.all(wire.Placement)) == n_before + 2


@trio_test(autojump=True)
async def test_nonsense_is_refused_or_ignored_and_the_market_goes_on():
    async with a_market() as world:
        liar = await world.peer("liar", Role.WORKER)
        liar.send(Cancel(request=1))
        liar.send(wire.Held(lease=bytes(8), experts=()))
        assert (await liar.next(wire.Refused)).what == MessageType.HELD
        liar.list_model("liar")
        await liar.next(wire.Refused)
        assert any("serves no model" in r.reason for r in liar.all(wire.Refused))
        liar.offer(memory_bytes=1 << 60)
        await liar.until(
            lambda: any("memory_bytes" in r.reason for r in liar.all(wire.Refused))
        )
        backbone = await world.peer("backbone", Role.BACKBONE)
        backbone.report(NAME)
        assert "send it again" in (await backbone.next(wire.Refused)).reason
        backbone.list_model("backbone")
        assert (await backbone.next(wire.Placement)).holders == ()


@trio_test(autojump=True)
async def test_a_market_killed_and_started_again_recovers():
    async with trio.open_nursery() as nursery:
        world = World(nursery)
        backbone = await world.peer("backbone", Role.BACKBONE)
        worker = await world.peer("worker", Role.WORKER)
        leases = []
        for _ in range(2):
            async with market_on(world.network):
                backbone.list_model("backbone")
                worker.offer(3)
                lease = await worker.next(wire.Lease)
                worker.hold(lease)
                await backbone.covers(set(lease.experts), 1)
                leases.append(lease)
        assert leases[0].lease == leases[1].lease
        nursery.cancel_scope.cancel()


def test_holdings_and_prices_survive_in_the_memory_file(tmp_path: Path) -> None:
    path = tmp_path / "market.json"

    async def main() -> None:
        async with a_market(path) as world:
            backbone = await world.peer("backbone", Role.BACKBONE)
            backbone.list_model("backbone")
            worker = await world.peer("worker", Role.WORKER)
            worker.offer(3)
            worker.hold(await worker.lease())
            await backbone.next(wire.Placement)

    trio.run(main)
    remembered = read_remembered(path)
    assert len(remembered.holdings(PeerId(identity_of("worker").peer_id))) == 3


def test_a_full_disk_is_logged_and_the_market_goes_on(tmp_path, caplog) -> None:
    async def main() -> None:
        async with a_market(tmp_path / "absent" / "market.json") as world:
            backbone = await world.peer("backbone", Role.BACKBONE)
            backbone.list_model("backbone")
            await backbone.next(wire.Placement)

    with caplog.at_level(logging.WARNING, logger="p2pmoe.market"):
        trio.run(main)
    assert "cannot write" in caplog.text


@trio_test
async def test_a_large_manifest_is_read_aside_and_listed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service_module, "_MAX_READ_AT_ONCE", 10)
    opened: list[bytes] = []
    real = service_module.open_notice

    def open_slowly(manifest: bytes, signature: bytes, peer: PeerId) -> Manifest:
        opened.append(manifest)
        return real(manifest, signature, peer)

    monkeypatch.setattr(service_module, "open_notice", open_slowly)
    async with a_market() as world:
        backbone = await world.peer("backbone", Role.BACKBONE)
        for _ in range(5):
            backbone.list_model("backbone")
        await backbone.next(wire.Placement)
        backbone.list_model("backbone")
        await backbone.next(wire.Placement)
        assert len(opened) == 1
        assert not backbone.all(wire.Refused)
