"""A worker on a memory network, with a market, a backbone and a ledger that obey.

`Stage.worker()` runs a real `contribute` over the folder of the stage; the three others
are fakes of a few lines each, which note what they hear and do what a test tells them.
"""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import trio

from ledger.prices import PriceTable
from ledger.voucher import sign_voucher, voucher_hash
from mobile_worker import messages
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test import SELF_TEST_DIGEST
from mobile_worker.contribute.controls import Controls
from mobile_worker.contribute.proving import ProvenKernel, prove_arithmetic
from mobile_worker.contribute.service import Hooks, Started, contribute
from mobile_worker.contribute.settings import ContributeSettings
from mobile_worker.contribute.states import Facts, Status
from mobile_worker.expert_id import ExpertId
from mobile_worker.governor.sensors import NoSensors, Sensors
from mobile_worker.links.events import Arrived
from mobile_worker.links.memory import MemoryNetwork, MemoryNode
from mobile_worker.links.node import NodeSettings
from mobile_worker.session.descriptor import NetworkDescriptor, sign_descriptor
from mobile_worker.session.identity import Identity
from mobile_worker.shards.desk import answer_get
from mobile_worker.shards.errors import ShardMissing
from mobile_worker.shards.fetch import FetchSettings
from mobile_worker.shards.relay_blobs import RelayBlobs
from relay.endpoint import parse_endpoint
from relay.keys import PeerId
from relay.tokens import Role
from tests.support.money import NOW_US, Money
from tests.support.small_model import SmallModel, small_model

__all__ = [
    "RATE_MACS_S",
    "Party",
    "RunningWorker",
    "Stage",
    "TrioClock",
    "open_stage",
    "proven",
]


RATE_MACS_S = 1_234_567
Beside = Callable[[Controls], Awaitable[None]]


def proven(settings: ContributeSettings, kernel: Kernel | None = None) -> ProvenKernel:
    """Return the reference, or this kernel, tested and with a made-up rate."""
    kernel = kernel or NumpyKernel(decoded_cache_bytes=settings.decoded_bytes)
    return ProvenKernel(
        kernel=kernel, self_test=prove_arithmetic(kernel), rate_macs_s=RATE_MACS_S
    )


class TrioClock:
    """The test's clock; `asleep_s` is time that only the wall saw."""

    def __init__(self) -> None:
        self.asleep_s = 0.0

    def monotonic(self) -> float:
        return trio.current_time()

    def wall_us(self) -> int:
        return NOW_US + int((trio.current_time() + self.asleep_s) * 1e6)


@dataclass
class Party:
    """One of the others: its node, what it heard, and how it answers."""

    node: MemoryNode
    answer: Callable[[PeerId, messages.Message], object]
    heard: list[tuple[PeerId, messages.Message]] = field(default_factory=list)
    news: trio.Event = field(default_factory=trio.Event)

    async def run(self) -> None:
        async for event in self.node.arrivals():
            if isinstance(event, Arrived):
                self.heard.append((event.peer, event.message))
                self.answer(event.peer, event.message)
                self.news.set()
                self.news = trio.Event()

    def all(self, kind: type) -> list:
        return [message for _, message in self.heard if isinstance(message, kind)]

    async def hear(self, kind: type, *, within_s: float = 60.0):
        """Wait for a message of this kind, and take it."""
        with trio.fail_after(within_s):
            while True:
                for entry in self.heard:
                    if isinstance(entry[1], kind):
                        self.heard.remove(entry)
                        return entry[1]
                await self.news.wait()


@dataclass
class RunningWorker:
    """A worker that runs."""

    stop: trio.Event
    statuses: list[Status]
    facts: list[Facts]
    started: list[Started]
    settled: list[bool]
    ended: trio.Event
    joined: trio.Event

    @property
    def states(self) -> list[str]:
        return [str(status.state) for status in self.statuses]


@dataclass
class Stage:
    """Everything around the worker."""

    folder: Path
    network: MemoryNetwork
    money: Money
    model: SmallModel
    clock: TrioClock
    nursery: trio.Nursery
    prices: PriceTable
    leased: tuple[ExpertId, ...]
    market: Party = field(init=False)
    backbone: Party = field(init=False)
    ledger: Party = field(init=False)
    refuse: str = ""
    lease_id: bytes = b"lease-01"
    expires_in_s: int = 40
    signs: bool = True
    files: bool = True
    lend: bool = True
    given: dict[bytes, bytes] = field(default_factory=dict)

    # What the others do.

    def market_answers(self, peer: PeerId, message: messages.Message) -> None:
        match message:
            case messages.Offer() if self.refuse:
                what = int(messages.MessageType.OFFER)
                refusal = messages.Refused(what=what, reason=self.refuse)
                self.market.node.send(peer, refusal)
            case messages.Offer() if self.lend:
                self.send_lease(peer)
            case messages.Get():
                blob = answer_get(message, self.read_range)
                self.market.node.send(peer, blob)

    def backbone_answers(self, peer: PeerId, message: messages.Message) -> None:
        match message:
            case messages.Get():
                blob = answer_get(message, self.read_range)
                self.backbone.node.send(peer, blob)
            case messages.Voucher() if self.signs:
                signature = sign_voucher(message.voucher, self.money.backbone.sign)
                self.backbone.node.send(
                    peer,
                    messages.Countersign(
                        voucher_hash=voucher_hash(message.voucher),
                        backbone_signature=signature,
                        error="",
                    ),
                )

    def ledger_answers(self, peer: PeerId, message: messages.Message) -> None:
        match message:
            case messages.File() if self.files:
                name = voucher_hash(message.voucher)
                filed = messages.Filed(voucher_hash=name, status=0, reason="")
                self.ledger.node.send(peer, filed)

    def read_range(self, name: str, offset: int, length: int) -> tuple[int, bytes]:
        body = (self.model.by_digest | self.given).get(bytes.fromhex(name))
        if body is None:
            raise ShardMissing("no")
        return len(body), body[offset : offset + length]

    # What a test does.

    @property
    def worker_id(self) -> PeerId:
        return self.market.heard[0][0]

    def send_lease(self, peer: PeerId, *experts: ExpertId) -> None:
        raw, signature = self.money.signed_prices(self.prices)
        lease = messages.Lease(
            lease=self.lease_id,
            backbone=self.money.backbone.peer_id,
            backbone_record=self.backbone.node.record.encoded,
            manifest_hash=self.model.name,
            experts=experts or self.leased,
            price_table=raw,
            price_signature=signature,
            expires_in_s=self.expires_in_s,
        )
        self.market.node.send(peer, lease)

    def hello(self, worker: PeerId, tab: bytes = b"", **changes: object) -> None:
        values: dict[str, object] = {
            "versions": (1,),
            "manifest_hash": self.model.name,
            "profile": 1,
            "self_test": SELF_TEST_DIGEST,
            "max_rows": 4096,
            "tab": tab,
            "ack": False,
        }
        self.backbone.node.send(worker, messages.Hello(**(values | changes)))

    def grant(self, to: PeerId, **changes: object) -> None:
        values: dict[str, object] = {"worker": to, "expiry_us": 2**60}
        grant = self.money.grant(self.prices, **(values | changes))
        raw, signature = self.money.signed_grant(grant)
        message = messages.Grant(request=1, grant=raw, signature=signature, error="")
        self.backbone.node.send(to, message)

    async def serving(self) -> tuple[PeerId, bytes]:
        """Bring the worker to where it serves; return its id and tab."""
        worker = await self.held()
        self.hello(worker)
        ack = await self.backbone.hear(messages.Hello)
        self.grant(worker)
        return worker, ack.tab

    async def held(self) -> PeerId:
        """Wait until the worker reports all that is leased; return its id."""
        with trio.fail_after(60):
            while True:
                for peer, message in self.market.heard:
                    if isinstance(message, messages.Held) and set(
                        message.experts
                    ) == set(self.leased):
                        return peer
                await self.market.news.wait()

    async def ask(self, worker: PeerId, dispatch: messages.Dispatch):
        """Send a dispatch and wait for its answer."""
        self.backbone.node.send(worker, dispatch)
        return await self.backbone.hear(messages.Output)

    def accept(self, worker: PeerId, tab: bytes, *ranges: tuple[int, int]) -> None:
        self.backbone.node.send(worker, messages.Accept(tab=tab, ranges=ranges))

    def settings(self, **changes: object) -> ContributeSettings:
        values: dict[str, object] = {
            "data": self.folder / "worker",
            "endpoint": parse_endpoint("wss://relay.example/relay"),
            "token": b"",
            "network": None,
            "memory_bytes": 64 << 20,
            "disk_bytes": 64 << 20,
            "domain": "here",
        }
        return ContributeSettings(**(values | changes))  # type: ignore[arg-type]

    @asynccontextmanager
    async def worker(self, **changes: object) -> AsyncIterator[RunningWorker]:
        """Run a worker; it is stopped when the block ends."""
        kernel = cast("Kernel | None", changes.pop("kernel", None))
        beside = cast("Beside | None", changes.pop("beside", None))
        sensors = cast("Sensors", changes.pop("sensors", NoSensors()))
        running = RunningWorker(
            trio.Event(), [], [], [], [], trio.Event(), trio.Event()
        )

        def report(status: Status, facts: Facts) -> None:
            running.statuses.append(status)
            running.facts.append(facts)

        def started(what: Started) -> None:
            running.started.append(what)
            running.joined.set()

        hooks = Hooks(
            open_node=lambda node: self.network.open_node(node, clock=self.clock),
            prove=functools.partial(proven, kernel=kernel),
            clock=self.clock,
            report=report,
            started=started,
            fetch=FetchSettings(piece_timeout_s=2.0, max_failures=2),
            open_relays=lambda _: RelayBlobs(()),
            beside=beside,
            sensors=lambda _: sensors,
        )

        async def run() -> None:
            try:
                settings = self.settings(**changes)
                running.settled.append(await contribute(settings, running.stop, hooks))
            finally:
                running.ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            yield running
            running.stop.set()
            with trio.move_on_after(60) as scope:
                await running.ended.wait()
            assert not scope.cancelled_caught
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_stage(
    folder: Path, *, experts: int = 8, model: SmallModel | None = None
) -> AsyncIterator[Stage]:
    """Open a network with market, backbone and ledger, all obedient."""
    model = model or small_model()
    money = Money(manifest_hash=model.name)
    network_key = Identity.generate()
    money.network = network_key.peer_id
    descriptor = sign_descriptor(
        NetworkDescriptor(
            network=network_key.peer_id,
            market=money.market.peer_id,
            ledger=money.ledger.peer_id,
        ),
        network_key.sign,
    )
    clock = TrioClock()
    network = MemoryNetwork(descriptor=descriptor)
    async with trio.open_nursery() as nursery:
        stage = Stage(
            folder=folder,
            network=network,
            money=money,
            model=model,
            clock=clock,
            nursery=nursery,
            prices=money.prices(),
            leased=tuple(sorted(model.shards))[:experts],
        )
        parties = (
            ("market", money.market, Role.MARKET, stage.market_answers),
            ("backbone", money.backbone, Role.BACKBONE, stage.backbone_answers),
            ("ledger", money.ledger, Role.LEDGER, stage.ledger_answers),
        )
        for name, identity, role, answer in parties:
            opened = network.open_node(
                NodeSettings(identity=identity, role=role), clock=clock
            )
            party = Party(await _enter(nursery, opened), answer)
            setattr(stage, name, party)
            nursery.start_soon(party.run)
        yield stage
        nursery.cancel_scope.cancel()


async def _enter(nursery: trio.Nursery, opened) -> MemoryNode:
    async def keep(task_status: trio.TaskStatus = trio.TASK_STATUS_IGNORED) -> None:
        async with opened as node:
            task_status.started(node)
            await trio.sleep_forever()

    return await nursery.start(keep)
