"""Real workers, a small market and a small ledger on a MemoryNetwork, for tests.

The worker is the product's own serve loop and accounts, holding shards read from a
model file; market and ledger are the few answers that a backbone needs of them.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from ledger.grant import Grant, sign_grant
from ledger.prices import PriceTable, sign_price_table
from ledger.spool import Spool
from ledger.voucher import SignedVoucher, Voucher, voucher_hash
from mobile_worker import messages
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST
from mobile_worker.clock import SystemClock
from mobile_worker.contribute.shard_service import ShardService
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.events import Arrived
from mobile_worker.links.memory import MemoryNetwork, MemoryNode
from mobile_worker.links.node import NodeSettings
from mobile_worker.serve.held import HeldExperts
from mobile_worker.serve.server import ExpertServer
from mobile_worker.servings.accounts import Accounts
from mobile_worker.servings.grants import GrantReader
from mobile_worker.servings.settling import Settling
from mobile_worker.session.descriptor import NetworkDescriptor, sign_descriptor
from mobile_worker.session.identity import Identity
from mobile_worker.shards.errors import ShardMissing
from mobile_worker.shards.manifest import Manifest
from relay.keys import PeerId, SigningKey
from relay.tokens import Role

__all__ = ["MemoryLedger", "MemoryMarket", "MemoryWorker", "World", "split"]

BASE_UC = 100
HUB, LAPTOP = 0, 1


class World:
    """A network with a market and a ledger; workers join as tests want."""

    def __init__(self, manifest: Manifest, folder: Path) -> None:
        """Make keys for a network that serves `manifest`; spools lie in `folder`."""
        self.manifest = manifest
        self.digest = voucher_hash(manifest.encode())
        self.folder = folder
        self.clock = SystemClock()
        key = SigningKey.generate()
        self.market_identity = Identity.generate()
        self.ledger_identity = Identity.generate()
        descriptor = NetworkDescriptor(
            network=key.peer_id,
            market=self.market_identity.peer_id,
            ledger=self.ledger_identity.peer_id,
        )
        self.network_id = key.peer_id
        self.network = MemoryNetwork(descriptor=sign_descriptor(descriptor, key.sign))
        self.prices = PriceTable(
            network=key.peer_id, manifest_hash=self.digest, epoch=1, base_uc=BASE_UC
        )
        self.market = MemoryMarket(self)
        self.ledger = MemoryLedger(self)
        self.workers: list[MemoryWorker] = []

    @asynccontextmanager
    async def services(self) -> AsyncIterator[None]:
        """Run market and ledger."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.market.run)
            await nursery.start(self.ledger.run)
            yield
            nursery.cancel_scope.cancel()

    @asynccontextmanager
    async def worker(
        self,
        kernel: Kernel,
        shards: dict[ExpertId, bytes],
        *,
        device_class: int = LAPTOP,
    ) -> AsyncIterator["MemoryWorker"]:
        """Run a worker that holds these shards, and place it while it runs."""
        worker = MemoryWorker(self, kernel, shards, device_class)
        async with trio.open_nursery() as nursery:
            await nursery.start(worker.run)
            self.workers.append(worker)
            self.market.place()
            try:
                yield worker
            finally:
                self.workers.remove(worker)
                self.market.place()
                nursery.cancel_scope.cancel()


class MemoryMarket:
    """Answers a notice with who holds what; nothing else."""

    def __init__(self, world: World) -> None:
        """Place the world's workers."""
        self._world = world
        self._serial = 0
        self._node: MemoryNode | None = None
        self.backbone: PeerId | None = None
        self.demands: list[messages.Demand] = []

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        settings = NodeSettings(identity=self._world.market_identity, role=Role.MARKET)
        async with self._world.network.open_node(settings) as node:
            self._node = node
            task_status.started()
            async for event in node.arrivals():
                if not isinstance(event, Arrived):
                    continue
                if isinstance(event.message, messages.ManifestNotice):
                    self.backbone = event.peer
                    self.place()
                elif isinstance(event.message, messages.Demand):
                    self.demands.append(event.message)

    def place(self) -> None:
        """Send the whole picture."""
        if self._node is None or self.backbone is None:
            return
        self._serial += 1
        table = self._world.prices.pack()
        signature = sign_price_table(table, self._world.market_identity.sign)
        self._node.send(
            self.backbone,
            messages.Placement(
                manifest_hash=self._world.digest,
                serial=self._serial,
                price_table=table,
                price_signature=signature,
                holders=tuple(
                    messages.Holder(
                        record=worker.node.record.encoded,
                        device_class=worker.device_class,
                        experts=tuple(sorted(worker.shards)),
                    )
                    for worker in self._world.workers
                ),
            ),
        )


class MemoryLedger:
    """Grants whatever is asked, checks and keeps whatever is filed."""

    def __init__(self, world: World) -> None:
        """Begin empty."""
        self._world = world
        self.filed: dict[bytes, Voucher] = {}
        self.float_leaves = 64
        self.is_down = False

    @property
    def n_receipts(self) -> int:
        """Servings in the newest voucher of each tab and epoch."""
        newest: dict[object, int] = {}
        for voucher in self.filed.values():
            newest[voucher.key] = max(newest.get(voucher.key, 0), voucher.leaves)
        return sum(newest.values())

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        settings = NodeSettings(identity=self._world.ledger_identity, role=Role.LEDGER)
        async with self._world.network.open_node(settings) as node:
            task_status.started()
            async for event in node.arrivals():
                if not isinstance(event, Arrived) or self.is_down:
                    continue
                if isinstance(event.message, messages.GrantRequest):
                    node.send(event.peer, self._grant(event.peer, event.message))
                elif isinstance(event.message, messages.File):
                    node.send(event.peer, self._file(event.message))

    def _grant(self, backbone: PeerId, asked: messages.GrantRequest) -> messages.Grant:
        prices = PriceTable.parse(asked.price_table)
        grant = Grant(
            network=self._world.network_id,
            manifest_hash=prices.manifest_hash,
            worker=asked.worker,
            backbone=backbone,
            price_table_hash=prices.content_hash,
            ceiling_uc=asked.ceiling_uc,
            expiry_us=self._world.clock.wall_us() + 3_600_000_000,
            float_leaves=self.float_leaves,
            serial=asked.request.to_bytes(8, "big"),
        ).pack()
        signature = sign_grant(grant, self._world.ledger_identity.sign)
        return messages.Grant(
            request=asked.request, grant=grant, signature=signature, error=""
        )

    def _file(self, file: messages.File) -> messages.Filed:
        name = voucher_hash(file.voucher)
        voucher = SignedVoucher(
            raw=file.voucher,
            worker_signature=file.worker_signature,
            backbone_signature=file.backbone_signature,
        ).verified()
        status = 1 if name in self.filed else 0
        self.filed[name] = voucher
        return messages.Filed(voucher_hash=name, status=status, reason="")


class MemoryWorker:
    """One worker: the product's serve loop, accounts and settling."""

    def __init__(
        self,
        world: World,
        kernel: Kernel,
        shards: dict[ExpertId, bytes],
        device_class: int,
    ) -> None:
        """Hold `shards` of the world's model."""
        self.world = world
        self.shards = shards
        self.device_class = device_class
        self.identity = Identity.generate()
        self.node: MemoryNode
        self.n_dispatches = 0
        self.n_gets = 0
        self.spoil = lambda blob: blob  # what a hostile one does to its answers
        self._kernel = kernel
        held = self._held = HeldExperts(1 << 30)
        self._model = held.learn(world.digest, world.manifest)
        for expert, shard in shards.items():
            held.hold(self._model, expert, shard)
        self.accounts = Accounts(
            GrantReader(
                network=world.network_id,
                worker=self.identity.peer_id,
                ledger=world.ledger_identity.peer_id,
                market=world.market_identity.peer_id,
            ),
            self.identity.sign,
        )
        table = world.prices.pack()
        self.accounts.priced(table, sign_price_table(table, world.market_identity.sign))

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled."""
        settings = NodeSettings(
            identity=self.identity, role=Role.WORKER, self_test=SELF_TEST_DIGEST
        )
        folder = self.world.folder / self.identity.peer_id.hex()[:8]
        with Spool(folder) as spool:
            async with (
                self.world.network.open_node(settings) as self.node,
                trio.open_nursery() as nursery,
            ):
                server = ExpertServer(
                    self._kernel,
                    find=self._find,
                    send=self.node.send,
                    clock=self.world.clock,
                )
                settling = Settling(
                    self.accounts,
                    spool,
                    send=self.node.send,
                    ledger=self.world.ledger_identity.peer_id,
                    clock=self.world.clock,
                )
                self.gets = ShardService(self, held=self._held.shard, stored=_nothing)
                nursery.start_soon(server.run)
                nursery.start_soon(settling.run)
                nursery.start_soon(self.gets.run)
                task_status.started()
                async for event in self.node.arrivals():
                    if isinstance(event, Arrived):
                        await self._take(server, settling, event)

    async def _take(
        self, server: ExpertServer, settling: Settling, event: Arrived
    ) -> None:
        peer, message, now = event.peer, event.message, self.world.clock.monotonic()
        match message:
            case messages.Hello(ack=False):
                self._greet(peer, message)
                settling.greeted(peer)
            case messages.Dispatch():
                self.n_dispatches += 1
                server.dispatched(peer, message)
            case messages.Cancel(request=request):
                server.cancelled(peer, request)
            case messages.Get():
                self.n_gets += 1
                self.gets.asked(peer, message)
            case messages.Grant():
                self.accounts.granted(peer, message)
            case messages.Accept():
                self.accounts.accepted(peer, message, now)
                settling.wake()
            case messages.Countersign():
                settling.countersigned(peer, message)
            case messages.Filed():
                await settling.filed(peer, message)
            case messages.Draining():
                self.accounts.close()
                settling.wake()

    def send(self, peer: PeerId, blob: messages.Blob) -> None:
        """Send a piece of a shard, spoiled or not; None: nothing."""
        spoiled = self.spoil(blob)
        if spoiled is not None:
            self.node.send(peer, spoiled)

    def waiting_bytes(self, peer: PeerId) -> int:
        """What waits to be sent to a peer."""
        return self.node.waiting_bytes(peer)

    def _greet(self, peer: PeerId, hello: messages.Hello) -> None:
        tab = self.accounts.greeted(peer, hello.manifest_hash, hello.profile, hello.tab)
        answer = messages.Hello(
            versions=(1,),
            manifest_hash=hello.manifest_hash,
            profile=hello.profile,
            self_test=SELF_TEST_DIGEST,
            max_rows=messages.MAX_ROWS,
            tab=tab.terms.tab,
            ack=True,
        )
        self.node.send(peer, answer)

    def _find(self, peer: PeerId, tab_id: bytes) -> object:
        tab = self.accounts.find(peer, tab_id)
        return None if tab is None else (tab, self._model)


def _nothing(name: str, offset: int, length: int) -> tuple[int, bytes]:
    raise ShardMissing(name)


def split(experts: Iterable[ExpertId], n: int) -> list[set[ExpertId]]:
    """Deal experts out to n holders, one after the other."""
    hands: list[set[ExpertId]] = [set() for _ in range(n)]
    for at, expert in enumerate(sorted(experts)):
        hands[at % n].add(expert)
    return hands
