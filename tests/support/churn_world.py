"""A network of simulated devices over a real relay: real messages, a real market.

Relay, market, ledger, backbone and devices are peers of one process, each with a node
of its own and sockets on loopback. Market and relay are the product's; a device offers,
fetches what its lease names after a moment (the bytes are at hand), computes with the
product's serve loop, renews, and leaves when the test says so, with a word or without.
"""

import dataclasses
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random

import trio

from mobile_worker import messages
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST
from mobile_worker.device_class import DeviceClass
from mobile_worker.expert_id import ExpertId
from mobile_worker.links import Node, NodeSettings, open_node
from mobile_worker.links.events import Arrived
from mobile_worker.serve.server import ExpertServer
from mobile_worker.servings.settling import Settling
from mobile_worker.session.descriptor import NetworkDescriptor, sign_descriptor
from mobile_worker.shards.manifest import Manifest
from p2pmoe.market.book import Book, MarketSettings
from p2pmoe.market.remembered import Remembered
from p2pmoe.market.service import MarketService, ServiceSettings
from relay import NetworkToken, RateClass, RunningRelay, encode_token, serve
from relay.endpoint import Endpoint
from relay.tokens import Role
from tests.support.memory_worker import MemoryWorker, World
from tests.support.relays import NETWORK, tls_config

__all__ = ["ChurnDevice", "ChurnWorld", "RelayNetwork"]

_FETCH_S = 0.1
_RENEW_SHARE = 0.75


class RelayNetwork:
    """Opens nodes as a MemoryNetwork does, but each with its link to a real relay."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def open_node(self, settings: NodeSettings) -> AbstractAsyncContextManager[Node]:
        """Open a node that joins the relay by a token of its own."""
        token = NetworkToken(
            network=NETWORK.peer_id,
            peer_id=settings.identity.peer_id,
            rate_class=RateClass.HUB,
        )
        joining = dataclasses.replace(
            settings,
            endpoints=(self._endpoint,),
            token=encode_token(token, NETWORK.sign),
        )
        return open_node(joining)


class ChurnWorld(World):
    """The network: a relay, a market with its book, and a ledger that grants."""

    def __init__(self, manifest: Manifest, folder: Path) -> None:
        super().__init__(manifest, folder)
        self.network_id = NETWORK.peer_id
        self.descriptor = sign_descriptor(
            NetworkDescriptor(
                network=NETWORK.peer_id,
                market=self.market_identity.peer_id,
                ledger=self.ledger_identity.peer_id,
            ),
            NETWORK.sign,
        )
        self.prices = dataclasses.replace(self.prices, network=NETWORK.peer_id)
        self.book = Book(
            MarketSettings(
                network=NETWORK.peer_id,
                sign=self.market_identity.sign,
                tie_salt=b"churn",
                first_serial=0,
                random=Random(7),
            ),
            Remembered(),
        )
        self.relay: RunningRelay

    @asynccontextmanager
    async def services(self) -> AsyncIterator[None]:
        """Run relay, market and ledger."""
        config = tls_config(
            network=NETWORK.peer_id,
            open=False,
            descriptor=self.descriptor.encoded,
            market=self.market_identity.peer_id,
        )
        async with trio.open_nursery() as nursery:
            wall_us = self.clock.wall_us
            self.relay = await nursery.start(partial(serve, config, wall_us=wall_us))
            self.network = RelayNetwork(self.relay.endpoint("127.0.0.1"))
            await nursery.start(self._run_market)
            await nursery.start(self.ledger.run)
            yield
            nursery.cancel_scope.cancel()

    async def _run_market(self, task_status: trio.TaskStatus[None]) -> None:
        settings = NodeSettings(identity=self.market_identity, role=Role.MARKET)
        async with self.network.open_node(settings) as node:
            self.market_node = node
            service = MarketService(
                node, self.book, self.clock, ServiceSettings(self_test=SELF_TEST_DIGEST)
            )
            task_status.started()
            await service.run()


class ChurnDevice(MemoryWorker):
    """One device: what it holds is what the market leases to it."""

    def __init__(
        self,
        world: ChurnWorld,
        kernel: Kernel,
        shards: dict[ExpertId, bytes],
        *,
        device_class: DeviceClass,
        n_slots: int,
        domain: str,
    ) -> None:
        """`shards`: of the whole model; the bytes are shared by all devices."""
        super().__init__(world, kernel, {}, int(device_class))
        self.domain = domain
        self._all_shards = shards
        self._memory_bytes = n_slots * max(map(len, shards.values()))
        self._leases: dict[bytes, messages.Lease] = {}
        self._left = trio.Event()
        self.fetched: list[ExpertId] = []

    async def live(self, task_status: trio.TaskStatus[None]) -> None:
        """Join, offer, and serve until told to leave."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.run)
            self._nursery = nursery
            self.offer()
            nursery.start_soon(self._renew)
            task_status.started()
            await self._left.wait()
            nursery.cancel_scope.cancel()

    def offer(self) -> None:
        """Offer room to the market."""
        self._say(
            messages.Offer(
                record=self.node.record.encoded,
                memory_bytes=self._memory_bytes,
                disk_bytes=0,
                rate_macs_s=1,
                up_bytes_s=0,
                down_bytes_s=0,
                device_class=self.device_class,
                domain=self.domain,
                models=(),
            )
        )

    async def leave(self, *, drains: bool) -> None:
        """Leave: without a word, or drain as a worker does that is told to end."""
        if drains:
            self._say(messages.Draining(reason="it was told to end"))
            await trio.sleep(1.0)
        self._left.set()

    def _say(self, message: messages.Message) -> None:
        self.node.send(self.world.market_identity.peer_id, message)

    async def _renew(self) -> None:
        while True:
            terms = [lease.expires_in_s for lease in self._leases.values()]
            await trio.sleep(_RENEW_SHARE * min(terms, default=10))
            for lease_id in self._leases:
                self._say(messages.Renew(lease=lease_id))

    async def _take(
        self, server: ExpertServer, settling: Settling, event: Arrived
    ) -> None:
        match event.message:
            case messages.Lease() as lease:
                self._leases[lease.lease] = lease
                self.accounts.priced(lease.price_table, lease.price_signature)
                self._keep(lease.experts)
                self._nursery.start_soon(self._fetch, lease)
            case messages.Release(lease=lease_id):
                self._leases.pop(lease_id, None)
                self._keep(())
            case messages.Refused():
                self.offer()
            case _:
                await super()._take(server, settling, event)

    def _keep(self, experts: Iterable[ExpertId]) -> None:
        kept = frozenset(experts)
        self._held.drop(self.world.digest, kept)
        self.shards = {e: s for e, s in self.shards.items() if e in kept}

    async def _fetch(self, lease: messages.Lease) -> None:
        if not lease.experts:
            return
        await trio.sleep(_FETCH_S)
        if self._leases.get(lease.lease) is not lease:
            return  # another one has come meanwhile
        for expert in lease.experts:
            if expert not in self.shards:
                self.shards[expert] = self._all_shards[expert]
                self._held.hold(self._model, expert, self.shards[expert])
                self.fetched.append(expert)
        self._say(messages.Held(lease=lease.lease, experts=lease.experts))
