"""The backbone among its peers: one reader of events, and tasks around it.

    events      what a node tells, handed to dispatcher, market client and bookkeeper
    timer       the dispatcher's deadlines, and calls that wait for a holder
    greetings   HELLO to workers placed, new or demoted; their answer opens a tab.
                A HELLO that names no tab makes a worker close a worn one and open anew
    market      notices and demand when due
    ledger      vouchers, grants and filings, one at a time (bookkeeper.py)
    shards      GET answered from the model file, on a thread
    weights     BLOBs that prefetching asked workers for (prefetch/fetching.py)

Peers' nonsense is logged and changes nothing else. Queues between the reader and the
slower tasks are bounded: what does not fit is dropped, and its sender asks again.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import trio

from ledger.errors import LedgerError
from mobile_worker import messages
from mobile_worker.clock import Clock
from mobile_worker.errors import LocalError
from mobile_worker.links.arrivals import take_each
from mobile_worker.links.events import (
    Arrived,
    LostReason,
    NodeEvent,
    PeerBack,
    PeerLost,
    RelayChanged,
    Undelivered,
    UndeliveredReason,
)
from mobile_worker.links.inbox import Inbox
from mobile_worker.links.node import Node
from mobile_worker.links.service_watch import ABSENT
from mobile_worker.serve.canary import CanaryDesk
from mobile_worker.shards.desk import busy_blob
from p2pmoe.backbone.audit_reports import AuditReports
from p2pmoe.backbone.bookkeeper import Bookkeeper
from p2pmoe.backbone.dispatcher import Dispatcher
from p2pmoe.backbone.fleet import Fleet
from p2pmoe.backbone.last_placement import LastPlacement
from p2pmoe.backbone.market_client import MarketClient, Placed
from p2pmoe.backbone.prefetch.fetching import Fetcher
from p2pmoe.backbone.settlement import Settlement
from p2pmoe.backbone.shard_reader import ShardReader
from p2pmoe.backbone.who_holds import WhoHolds
from p2pmoe.backbone.without_market import WithoutMarket
from relay.keys import PeerId

__all__ = ["NetworkSide", "NetworkSideParts"]

log = logging.getLogger("p2pmoe.backbone")

TICK_S = 0.25
MAX_WAITING = 256
MAX_OF_WORKER = 16  # vouchers of one worker that wait
MAX_GETS_OF_PEER = 64
MAX_WAITING_BYTES = 64 << 20
N_SHARD_READERS = 2

Money = messages.Voucher | messages.Grant | messages.Filed | messages.Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSideParts:
    """What the network side works with; market and ledger as the descriptor names."""

    node: Node
    clock: Clock
    market: PeerId
    ledger: PeerId
    hello: messages.Hello  # ours, without a tab
    fleet: Fleet
    dispatcher: Dispatcher
    settlement: Settlement
    bookkeeper: Bookkeeper
    market_client: MarketClient
    shards: ShardReader
    who_holds: WhoHolds
    without_market: WithoutMarket
    last_placement: LastPlacement
    fetcher: Fetcher
    canaries: CanaryDesk
    reports: AuditReports
    on_coverage: Callable[[], None]


class NetworkSide:
    """Runs the parts above over one node."""

    def __init__(self, parts: NetworkSideParts) -> None:
        """Begin; `run` does the work."""
        self._parts = parts
        self._wake = trio.Event()
        self._vouchers = Inbox[Money](
            max_items=MAX_WAITING,
            max_of_peer=MAX_OF_WORKER,
            max_bytes=MAX_WAITING_BYTES,
        )
        self._services = Inbox[Money](max_items=MAX_WAITING, max_of_peer=MAX_WAITING)
        self._gets = Inbox[messages.Get](
            max_items=MAX_WAITING, max_of_peer=MAX_GETS_OF_PEER
        )
        parts.dispatcher.on_sooner = self.wake

    def wake(self) -> None:
        """Have the timer look again: a deadline is sooner, or a worker is askable."""
        self._wake.set()

    async def run(self) -> None:
        """Serve until the node closes or the caller cancels."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._timer)
            nursery.start_soon(self._tick)
            nursery.start_soon(self._parts.bookkeeper.run)
            nursery.start_soon(self._parts.canaries.run)
            nursery.start_soon(self._parts.last_placement.run)
            self._recall()
            nursery.start_soon(self._keep_accounts, self._vouchers)
            nursery.start_soon(self._keep_accounts, self._services)
            for _ in range(N_SHARD_READERS):
                nursery.start_soon(self._answer_gets)
            await take_each(self._parts.node.arrivals(), self.take)
            nursery.cancel_scope.cancel()

    async def drain(self, within_s: float) -> bool:
        """Ask workers for their last vouchers; True if all is signed and filed."""
        for peer in self._parts.fleet.workers:
            if self._parts.settlement.tab_of(peer):
                self._send(peer, messages.Draining(reason="the backbone ends"))
        self._parts.bookkeeper.ledger_is_back()  # file now, without a pause
        with trio.move_on_after(within_s):
            try:
                await self._parts.bookkeeper.harvest()
            except LedgerError as error:
                log.warning("accounts are not kept: %s", error)
                return False
            await self._parts.bookkeeper.settled()
            return True
        return False

    # Events.

    def take(self, event: NodeEvent) -> None:
        """Act on one event; nothing in it can end the service."""
        match event:
            case Arrived(peer=peer, message=message, n_bytes=n_bytes):
                self._arrived(peer, message, n_bytes)
            case PeerLost(peer=peer, reason=reason):
                self._lost(peer, reason)
            case PeerBack(peer=peer):
                self._back(peer)
            case Undelivered(peer=peer, reason=reason):
                self._undelivered(peer, reason)
            case RelayChanged(up=up):
                log.info("relay is %s", "up" if up else "down")
                if up:
                    self._parts.market_client.say_again()
                    self._parts.bookkeeper.ledger_is_back()
                else:
                    self._parts.reports.forget_silence()

    def _arrived(self, peer: PeerId, message: messages.Message, n_bytes: int) -> None:
        dispatcher = self._parts.dispatcher
        match message:
            case messages.Output():
                dispatcher.on_output(peer, message, n_bytes)
            case messages.Busy(request=request, retry_ms=retry_ms):
                dispatcher.on_busy(peer, request, retry_ms)
            case messages.Hello():
                self._greeted(peer, message)
            case messages.Draining():
                self._parts.fleet.draining(peer, self._now())
            case messages.Get():
                self._queue_get(peer, message)
            case messages.Blob():
                self._parts.fetcher.on_blob(peer, message)
            case messages.Voucher():
                if self._parts.settlement.knows(peer):
                    self._queue_money(self._vouchers, peer, message, n_bytes)
            case _:
                self._service_said(peer, message)

    def _service_said(self, peer: PeerId, message: messages.Message) -> None:
        """Take what only the market or only the ledger may say."""
        match message:
            case messages.Placement() | messages.Refused():
                if peer == self._parts.market:
                    self._market_said(message)
            case messages.Offer() | messages.Held():
                self._joins(peer, message)
            case messages.Canary():
                if peer == self._parts.market:
                    self._parts.canaries.asked(message)
            case messages.Grant() | messages.Filed():
                if peer == self._parts.ledger:
                    self._queue_money(self._services, peer, message)
            case messages.Open():
                if peer == self._parts.ledger:
                    self._send(peer, self._parts.bookkeeper.on_open(message))
            case _:
                log.debug("%s from %s", type(message).__name__, peer.hex()[:8])

    def _lost(self, peer: PeerId, reason: LostReason) -> None:
        if peer == self._parts.market:
            self._parts.without_market.missed()
            self._parts.market_client.say_again()
        elif peer in self._parts.fleet.workers:
            log.info("worker %s is lost: %s", peer.hex()[:8], reason)
            self._parts.settlement.lost(peer)
            self._gone(peer)

    def _gone(self, peer: PeerId) -> None:
        self._parts.dispatcher.on_lost(peer)
        self._parts.fetcher.on_lost(peer)
        self._parts.on_coverage()

    def _back(self, peer: PeerId) -> None:
        """Try what waits for the market or the ledger: it may be listening again."""
        if peer == self._parts.market:
            self._parts.market_client.say_again()
        elif peer == self._parts.ledger:
            self._parts.bookkeeper.ledger_is_back()

    def _undelivered(self, peer: PeerId, reason: UndeliveredReason) -> None:
        if peer == self._parts.market and reason in ABSENT:
            self._parts.without_market.missed()
        if peer not in self._parts.fleet.workers:
            return
        if reason in {UndeliveredReason.NOT_HERE, UndeliveredReason.LOST}:
            self._parts.settlement.lost(peer)
        self._gone(peer)

    def _greeted(self, peer: PeerId, hello: messages.Hello) -> None:
        """Take a worker's HELLO or HELLO_ACK; refuse other arithmetic or models."""
        ours = self._parts.hello
        if peer not in self._parts.fleet.workers:
            return
        if not hello.ack:
            self._send(peer, self._hello(peer, ack=True))
        if (
            hello.self_test != ours.self_test
            or messages.PROTOCOL_VERSION not in hello.versions
        ):
            log.error("worker %s computes or speaks differently", peer.hex()[:8])
            self._parts.fleet.dropped(peer)
            return
        if hello.manifest_hash != ours.manifest_hash or not hello.tab:
            return
        self._parts.settlement.greeted(peer, hello.tab)
        if self._parts.fleet.greeted(peer):
            log.info("worker %s is live", peer.hex()[:8])
        self._parts.bookkeeper.greeted(peer)
        self.wake()
        self._parts.on_coverage()

    def _market_said(self, message: messages.Placement | messages.Refused) -> None:
        self._parts.without_market.watch.heard()
        if isinstance(message, messages.Refused):
            if self._parts.market_client.refused(message, self._now()):
                log.warning("the market refuses: %s", message.reason)
            return
        placed = self._parts.market_client.take(message)
        if placed is None:
            return
        self._parts.without_market.placed(message)
        self._parts.last_placement.said(message)
        self._place(placed, message)

    def _recall(self) -> None:
        """Begin with the placement of the last run, until the market says another."""
        last = self._parts.last_placement.placement
        if last is not None:
            self._place(self._parts.market_client.read(last), last)

    def _joins(self, peer: PeerId, message: messages.Offer | messages.Held) -> None:
        """Take a worker in while the market is away."""
        without = self._parts.without_market
        if isinstance(message, messages.Offer):
            without.offered(peer, message)
            return
        picture = without.held(peer, message)
        if picture is not None:
            log.info("worker %s joins without the market", peer.hex()[:8])
            self._place(self._parts.market_client.read(picture), picture)

    def _place(self, placed: Placed, message: messages.Placement) -> None:
        for record in placed.records:
            self._parts.node.learn(record)
        # Its price table:
        self._queue_money(self._services, self._parts.market, message)
        self._parts.fleet.place(placed.holders)
        self._greet()
        self.wake()
        self._parts.on_coverage()

    @staticmethod
    def _queue_money(
        inbox: Inbox[Money], peer: PeerId, message: Money, n_bytes: int = 0
    ) -> None:
        if not inbox.put(peer, message, n_bytes):
            log.debug("dropped a %s: too many wait", type(message).__name__)

    def _queue_get(self, peer: PeerId, message: messages.Get) -> None:
        if not message.length:
            self._send(peer, self._parts.who_holds.blob(peer, message))
        elif not self._gets.put(peer, message):
            self._send(peer, busy_blob(message))

    # Tasks.

    async def _timer(self) -> None:
        dispatcher = self._parts.dispatcher
        while True:
            self._wake = trio.Event()
            at = dispatcher.next_time()
            wait_s = float("inf") if at is None else max(0.0, at - self._now())
            with trio.move_on_after(wait_s):
                await self._wake.wait()
            dispatcher.expire()

    async def _tick(self) -> None:
        while True:
            for said in self._parts.market_client.due(self._now()):
                self._send(self._parts.market, said)
            name = self._parts.hello.manifest_hash
            for report in self._parts.reports.take(self._now(), name):
                self._send(self._parts.market, report)
            self._greet()
            self._parts.fleet.relax(self._now())
            self._parts.on_coverage()
            await trio.sleep(TICK_S)

    def _greet(self) -> None:
        now, fleet = self._now(), self._parts.fleet
        worn = [
            worker.peer
            for worker in fleet.workers.values()
            if worker.askable and self._parts.settlement.is_worn(worker.peer)
        ]
        for peer in [*fleet.to_greet(now), *worn]:
            fleet.greeting(peer, now)
            self._send(peer, self._hello(peer, ack=False))

    def _hello(self, peer: PeerId, *, ack: bool) -> messages.Hello:
        ours, settlement = self._parts.hello, self._parts.settlement
        return messages.Hello(
            versions=ours.versions,
            manifest_hash=ours.manifest_hash,
            profile=ours.profile,
            self_test=ours.self_test,
            max_rows=ours.max_rows,
            tab=b"" if settlement.is_worn(peer) else settlement.tab_of(peer),
            ack=ack,
        )

    async def _keep_accounts(self, inbox: Inbox[Money]) -> None:
        bookkeeper = self._parts.bookkeeper
        async for peer, message in inbox:
            try:
                match message:
                    case messages.Voucher():
                        await bookkeeper.on_voucher(peer, message)
                    case messages.Grant():
                        await bookkeeper.on_grant(message)
                    case messages.Filed():
                        await bookkeeper.on_filed(message)
                    case messages.Placement():
                        await bookkeeper.on_prices(
                            message.price_table, message.price_signature
                        )
            except LedgerError as error:
                log.warning("from %s: %s", peer.hex()[:8], error)

    async def _answer_gets(self) -> None:
        async for peer, get in self._gets:
            blob = await trio.to_thread.run_sync(self._parts.shards.blob, get)
            self._send(peer, blob)

    def _send(self, peer: PeerId, message: messages.Message) -> None:
        try:
            self._parts.node.send(peer, message)
        except LocalError as error:
            log.info("to %s: %s", peer.hex()[:8], error)

    def _now(self) -> float:
        return self._parts.clock.monotonic()
