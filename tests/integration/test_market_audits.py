"""Canaries and the ledger's questions over a real market, real desks, real arithmetic.

Nodes of one memory network: a market service, a ledger that asks, a backbone that has
no experts itself, and workers that hold a small model and answer by the product's own
desk; one of them lies.
"""

import contextlib
from collections.abc import AsyncIterator
from random import Random

import pytest
import trio

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.events import Arrived
from mobile_worker.links.memory import MemoryNetwork, MemoryNode
from mobile_worker.links.node import NodeSettings
from mobile_worker.messages import (
    Canary,
    CheckOutcome,
    Demand,
    Held,
    Lease,
    ManifestNotice,
    Offer,
    Placement,
    Recompute,
    Recomputed,
    Release,
    Renew,
    Standing,
    Verdict,
)
from mobile_worker.serve.canary import CanaryDesk, CanaryModel, CanaryParts
from mobile_worker.servings.hashes import out_hash
from mobile_worker.servings.opened_rows import opened_bytes
from mobile_worker.standing import StandingState
from p2pmoe.market.book import Book, MarketSettings
from p2pmoe.market.canaries import CanarySettings
from p2pmoe.market.deployments import sign_manifest
from p2pmoe.market.remembered import Remembered
from p2pmoe.market.service import MarketService, ServiceSettings
from relay.tokens import Role
from tests.support.flawed_kernel import OneBitKernel
from tests.support.inline_threads import inline_threads
from tests.support.market_peers import SELF_TEST, identity_of
from tests.support.small_model import N_EMBD, small_model
from tests.support.trio_test import trio_test

MODEL = small_model()
MARKET, LEDGER = identity_of("market").peer_id, identity_of("ledger").peer_id
E = ExpertId(1, 2)


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


class TrioClock:
    def monotonic(self) -> float:
        return trio.current_time()

    def wall_us(self) -> int:
        return 1_000_000


CLOCK = TrioClock()


class Peer:
    """A node that keeps what the market says, and answers as a worker does."""

    def __init__(self, node: MemoryNode, kernel: NumpyKernel | None = None) -> None:
        self.node = node
        self.said: list[object] = []
        self.desk: CanaryDesk | None = None
        if kernel is not None:
            _, held = MODEL.held()
            model = CanaryModel(n_embd=N_EMBD, weights=held.weights.get)
            self.desk = CanaryDesk(
                CanaryParts(
                    kernel=kernel,
                    find=lambda name: model if name == MODEL.name else None,
                    send=lambda answer: node.send(MARKET, answer),
                    clock=CLOCK,
                )
            )

    async def listen(self) -> None:
        async with trio.open_nursery() as nursery:
            if self.desk is not None:
                nursery.start_soon(self.desk.run)
            nursery.start_soon(self._renew)
            async for event in self.node.arrivals():
                if isinstance(event, Arrived):
                    self._take(event.message)

    async def _renew(self) -> None:
        """Say again what lapses: a worker its lease, a backbone its demand."""
        while True:
            await trio.sleep(20)
            lease = self.last(Lease)
            if lease is not None and self.last(Release) is None:
                self.node.send(MARKET, Renew(lease=lease.lease))
            elif self.desk is None and self.last(Placement) is not None:
                self.report()

    def report(self) -> None:
        """Say what a backbone without any expert says."""
        self.node.send(
            MARKET,
            Demand(manifest_hash=MODEL.name, counts=(), at_hand=(), has_disk=False),
        )

    def _take(self, message: object) -> None:
        self.said.append(message)
        if isinstance(message, Canary) and self.desk is not None:
            self.desk.asked(message)
        elif isinstance(message, Lease) and self.desk is not None:
            held = Held(lease=message.lease, experts=message.experts)
            self.node.send(MARKET, held)

    def last(self, kind):
        found = [each for each in self.said if isinstance(each, kind)]
        return found[-1] if found else None

    async def until(self, holds) -> None:
        for _ in range(20_000):
            if holds():
                return
            await trio.sleep(0.05)
        raise AssertionError("it never held")

    async def stands(self, state: StandingState) -> None:
        await self.until(lambda: self.last(Standing) and self._state() == state)

    def _state(self) -> int:
        return self.last(Standing).state


class World:
    def __init__(self, nursery: trio.Nursery) -> None:
        self.network = MemoryNetwork()
        self._nursery = nursery

    async def peer(self, name: str, role: Role, kernel=None) -> Peer:
        return await self._nursery.start(self._host, name, role, kernel)

    async def worker(self, name: str, kernel: NumpyKernel | None = None) -> Peer:
        """Join a worker in a domain of its own name."""
        kernel = kernel or NumpyKernel(decoded_cache_bytes=1 << 20)
        peer = await self.peer(name, Role.WORKER, kernel)
        peer.node.send(
            MARKET,
            Offer(
                record=peer.node.record.encoded,
                memory_bytes=1 << 20,
                disk_bytes=0,
                rate_macs_s=1,
                up_bytes_s=1,
                down_bytes_s=1,
                device_class=0,
                domain=name,
                models=(),
            ),
        )
        return peer

    async def _host(self, name, role, kernel, *, task_status) -> None:
        settings = NodeSettings(
            identity=identity_of(name), role=role, self_test=SELF_TEST
        )
        async with self.network.open_node(settings, clock=CLOCK) as node:
            peer = Peer(node, kernel)
            task_status.started(peer)
            await peer.listen()

    async def market(self, *, task_status) -> None:
        settings = NodeSettings(identity=identity_of("market"), role=Role.MARKET)
        async with self.network.open_node(settings, clock=CLOCK) as node:
            book = Book(
                MarketSettings(
                    network=identity_of("network").peer_id,
                    sign=identity_of("market").sign,
                    tie_salt=b"salt",
                    first_serial=0,
                    canaries=CanarySettings(period_s=360.0),  # a tenth of an hour
                    random=Random(9),
                ),
                Remembered(),
            )
            service = ServiceSettings(self_test=SELF_TEST, ledger=LEDGER)
            task_status.started()
            await MarketService(node, book, CLOCK, service).run()


@contextlib.asynccontextmanager
async def a_world() -> AsyncIterator[tuple[World, Peer]]:
    """A market that lists the small model; gives the world and the backbone."""
    async with trio.open_nursery() as nursery:
        world = World(nursery)
        await nursery.start(world.market)
        backbone = await world.peer("backbone", Role.BACKBONE)
        encoded = MODEL.manifest.encode()
        backbone.node.send(
            MARKET,
            ManifestNotice(
                manifest=encoded,
                signature=sign_manifest(encoded, identity_of("backbone").sign),
                backbone_record=backbone.node.record.encoded,
            ),
        )
        backbone.report()
        yield world, backbone
        nursery.cancel_scope.cancel()


def canaries_of(peer: Peer) -> int:
    return sum(isinstance(each, Canary) for each in peer.said)


@trio_test(autojump=True)
async def test_workers_of_two_domains_prove_each_other_and_the_liar_is_found():
    async with a_world() as (world, backbone):
        first, second = [await world.worker(name) for name in ("one", "two")]
        with trio.fail_after(3600):
            for _ in range(10):  # 8 experts: three rounds of the cycle end probation
                await trio.sleep(120)
                if first.last(Standing).state == StandingState.GOOD:
                    break
            await first.stands(StandingState.GOOD)
            await second.stands(StandingState.GOOD)
            liar = await world.worker("three", OneBitKernel())
            await liar.stands(StandingState.SUSPENDED)
        assert liar.last(Standing).mismatches >= 1
        assert "confirmed" in liar.last(Release).reason
        await backbone.until(lambda: len(backbone.last(Placement).holders) == 2)
        assert canaries_of(first) > 3


@trio_test(autojump=True)
async def test_the_ledger_has_a_serving_computed_again_and_rules():
    async with a_world() as (world, _):
        first, second = [await world.worker(name) for name in ("one", "two")]
        ledger = await world.peer("ledger", Role.LEDGER)
        await trio.sleep(1300)
        await second.stands(StandingState.GOOD)
        rows = MODEL.rows(2, "served")
        kernel = NumpyKernel(decoded_cache_bytes=1 << 20)
        _, held = MODEL.held()
        right = out_hash(kernel.expert(held.weights[E], rows, Profile.R16))
        ledger.node.send(
            MARKET,
            Recompute(
                number=5,
                manifest_hash=MODEL.name,
                expert=(E,),
                profile=int(Profile.R16),
                n_rows=2,
                worker=first.node.peer_id,
                avoid=b"",
                rows=opened_bytes(rows),
            ),
        )
        await ledger.until(lambda: ledger.last(Recomputed))
        said = ledger.last(Recomputed)
        assert (said.number, said.out_hash) == (5, right)
        assert said.referee == second.node.peer_id
        for case in (b"1", b"2"):
            ledger.node.send(
                MARKET,
                Verdict(
                    worker=first.node.peer_id,
                    backbone=identity_of("backbone").peer_id,
                    voucher_hash=case * 32,
                    serving=0,
                    outcome=int(CheckOutcome.FAILED),
                    referees=second.node.peer_id,
                ),
            )
        await first.stands(StandingState.REFUSED)
        await second.stands(StandingState.GOOD)
