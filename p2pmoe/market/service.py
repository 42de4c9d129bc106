"""The market as a peer: receives over a node, lets the book decide, sends what it says.

One task reads the node's events, one waits for what is due, one reads large manifests
(in a thread, and only those not listed yet), one writes the memory file when it has
changed (at most once in 2 s, in a thread). A peer's nonsense is answered
with REFUSED or ignored, and never stops the service. Faults of the file are logged; the
market goes on without it.

It never computes expert arithmetic and never loads numpy.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import trio

from mobile_worker.clock import Clock
from mobile_worker.errors import SendQueueFull, UnsendableMessage
from mobile_worker.links.events import (
    Arrived,
    LostReason,
    NodeEvent,
    PeerLost,
    PeerSeenFrom,
    RelayChanged,
    Undelivered,
)
from mobile_worker.links.inbox import Inbox
from mobile_worker.links.node import Node
from mobile_worker.messages import audits
from mobile_worker.messages import market as wire
from mobile_worker.messages.blobs import Blob, Get
from mobile_worker.messages.codec import Message
from mobile_worker.messages.envelope import MessageType
from mobile_worker.messages.membership import Draining
from mobile_worker.session.records import PeerRecord
from mobile_worker.shards.desk import BlobDesk, answer_get
from mobile_worker.shards.manifest import Manifest
from p2pmoe.market.admission import admit_backbone, admit_offer
from p2pmoe.market.book import Book
from p2pmoe.market.deployments import open_notice
from p2pmoe.market.errors import MarketError, NoticeRefused
from p2pmoe.market.outgoing import Send
from p2pmoe.market.overview import OverviewNews
from p2pmoe.market.pricing.keeper import PriceKeeper
from p2pmoe.market.remembered import write_remembered
from relay.keys import PeerId, short_id

__all__ = ["MarketService", "ServiceSettings"]

_WRITE_PERIOD_S = 2.0
_OVERVIEW_PERIOD_S = 60.0
_MAX_REASON_CHARS = 180
_MAX_READ_AT_ONCE = 256 << 10  # a manifest of some 5,000 experts: 0.05 s
_MAX_MANIFEST_BYTES = 4 << 20  # above every manifest that the roster has room for
_MAX_WAITING_BYTES = 64 << 20
_LOG = logging.getLogger("p2pmoe.market")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """self_test: the digest that all arithmetic must give; None accepts any.

    memory_file: where holdings are remembered, and beside it prices; None keeps them in
    memory only. ledger: who is believed on servings and pay.
    """

    self_test: bytes | None
    memory_file: Path | None = None
    ledger: PeerId | None = None


class MarketService:
    """Runs a market over a node. `run` ends when the node closes or is cancelled."""

    def __init__(
        self, node: Node, book: Book, clock: Clock, settings: ServiceSettings
    ) -> None:
        self._node = node
        self._book = book
        self._clock = clock
        self._settings = settings
        self._wake = trio.Event()
        self._n_refused = 0
        self._reading: set[PeerId] = set()
        self.desk = BlobDesk(node.send)
        file = settings.memory_file
        self._prices = PriceKeeper(
            book,
            clock,
            self._send_all,
            folder=None if file is None else file.parent,
            ledger=settings.ledger,
        )
        # Full: the notice is dropped; its backbone says it again.
        self._notices = Inbox[wire.ManifestNotice](
            max_items=64, max_of_peer=1, max_bytes=_MAX_WAITING_BYTES
        )

    async def run(self) -> None:
        """Serve until the node closes; write the memory file once more at the end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_time)
            nursery.start_soon(self._keep_memory)
            nursery.start_soon(self._read_large)
            nursery.start_soon(self._tell_overview)
            nursery.start_soon(self._prices.run)
            try:
                async for event in self._node.arrivals():
                    self._send_all(self.decide(event))
                    self._wake.set()
            finally:
                nursery.cancel_scope.cancel()

    def decide(self, event: NodeEvent) -> list[Send]:
        """Return what is to be sent after an event; a peer's fault raises nothing."""
        now = self._clock.monotonic()
        match event:
            case Arrived(peer=peer, message=message):
                self._book.heard(peer)
                try:
                    return self._answer(peer, message, now)
                except MarketError as refusal:
                    return [self._refusal(peer, message, refusal)]
            case PeerLost(peer=peer, reason=LostReason.GONE):
                return self._book.gone(peer, now)
            case PeerLost(peer=peer):
                return self._book.lost(peer, now)
            case PeerSeenFrom(peer=peer, prefix=prefix):
                self._book.seen_from(peer, prefix, now)
            case RelayChanged(up=True):
                self._book.relay_is_back(now)
                self._book.auditing.relay_is_back(now)
            case RelayChanged():
                self._book.relay_is_away()
                self._book.auditing.relay_is_away(now)
            case Undelivered(peer=peer):  # leases and placements are said again
                self._book.auditing.excuse(peer)
            case _:
                pass
        return []

    def _answer(self, peer: PeerId, message: Message, now: float) -> list[Send]:
        match message:
            case wire.ManifestNotice() | wire.Demand() if peer in self._reading:
                pass  # its manifest is being read; both are said again
            case wire.ManifestNotice():
                return self._notice(peer, message, now)
            case wire.Demand():
                return self._book.demand(peer, message, now)
            case wire.Offer():
                return self._offer(peer, message, now)
            case Get():
                read_manifest = self._book.roster.read_manifest
                return [Send(peer, answer_get(message, read_manifest))]
            case Blob():
                self.desk.arrived(peer, message)
            case _:
                return self._answer_holder(peer, message, now)
        return []

    def _answer_holder(self, peer: PeerId, message: Message, now: float) -> list[Send]:
        """Answer a worker that has a lease, and ignore what is not for a market."""
        match message:
            case wire.Held():
                return self._book.held(peer, message, now)
            case wire.Renew():
                return self._book.renew(peer, message.lease, now)
            case wire.Release():
                return self._book.release(peer, message, now)
            case Draining():
                return self._book.draining(peer, now)
            case audits.Paid() | audits.Booked():
                self._prices.said(peer, message)
            case _:
                is_ledger = peer == self._settings.ledger
                return self._book.auditing.said(peer, message, now, is_ledger=is_ledger)
        return []

    def _notice(
        self, peer: PeerId, notice: wire.ManifestNotice, now: float
    ) -> list[Send]:
        record = admit_backbone(notice, peer)
        parsed = None
        if not self._book.lists(peer, notice.manifest):
            self._book.roster.check_room(peer)
            if len(notice.manifest) > _MAX_MANIFEST_BYTES:
                raise NoticeRefused(f"a manifest of {len(notice.manifest)} bytes")
            if len(notice.manifest) > _MAX_READ_AT_ONCE:
                if self._notices.put(peer, notice, len(notice.manifest)):
                    self._reading.add(peer)
                return []
            parsed = open_notice(notice.manifest, notice.signature, peer)
        return self._list(record, notice, parsed, now)

    def _list(
        self,
        record: PeerRecord,
        notice: wire.ManifestNotice,
        parsed: Manifest | None,
        now: float,
    ) -> list[Send]:
        self._node.learn(record)
        if parsed is not None:
            _LOG.info("backbone %s lists %s", short_id(record.peer_id), parsed.name)
        return self._book.notice(record, notice.manifest, parsed, now)

    def _offer(self, peer: PeerId, offer: wire.Offer, now: float) -> list[Send]:
        admitted = admit_offer(
            offer,
            peer,
            now_us=self._clock.wall_us(),
            self_test=self._settings.self_test,
        )
        self._node.learn(admitted.record)
        _LOG.info(
            "worker %s offers %.0f MiB as %s",
            short_id(peer),
            admitted.memory_bytes / (1 << 20),
            admitted.device_class.name.lower(),
        )
        return self._book.offer(admitted, now)

    def _refusal(self, peer: PeerId, message: Message, refusal: MarketError) -> Send:
        self._n_refused += 1
        what = MessageType(message.TYPE)
        _LOG.warning("%s of %s refused: %s", what.name, short_id(peer), refusal)
        reason = str(refusal)[:_MAX_REASON_CHARS]
        return Send(peer, wire.Refused(what=int(what), reason=reason))

    def _send_all(self, sends: Iterable[Send]) -> None:
        for send in sends:
            try:
                self._node.send(send.peer, send.message)
            except (SendQueueFull, UnsendableMessage) as error:
                # The next lease or placement says it all again.
                _LOG.warning("not sent to %s: %s", short_id(send.peer), error)

    async def _keep_time(self) -> None:
        while True:
            self._wake = trio.Event()
            due = self._book.next_due()
            wait_s = float("inf") if due is None else due - self._clock.monotonic()
            with trio.move_on_after(max(0.0, wait_s)):
                await self._wake.wait()
            self._send_all(self._book.tick(self._clock.monotonic()))

    async def _tell_overview(self) -> None:
        """Log how each deployment is held, when that has changed."""
        book, news = self._book, OverviewNews()
        while True:
            await trio.sleep(_OVERVIEW_PERIOD_S)
            listings = book.roster.listings.values()
            for line in news.take(listings, book.leases, book.assignment):
                _LOG.info("%s", line)

    async def _read_large(self) -> None:
        async for peer, notice in self._notices:
            try:
                record = admit_backbone(notice, peer)
                parsed = await trio.to_thread.run_sync(
                    open_notice, notice.manifest, notice.signature, peer
                )
                sends = self._list(record, notice, parsed, self._clock.monotonic())
            except MarketError as refusal:
                sends = [self._refusal(peer, notice, refusal)]
            self._reading.discard(peer)
            self._send_all(sends)
            self._wake.set()

    async def _keep_memory(self) -> None:
        path = self._settings.memory_file
        if path is None:
            return
        remembered, written = self._book.remembered, self._book.remembered.version
        try:
            while True:
                await trio.sleep(_WRITE_PERIOD_S)
                if remembered.version != written:
                    written = remembered.version
                    await self._write(path)
        finally:
            if remembered.version != written:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                    await self._write(path)

    async def _write(self, path: Path) -> None:
        text = self._book.remembered.encode()
        try:
            await trio.to_thread.run_sync(write_remembered, path, text)
        except OSError as error:
            _LOG.warning("cannot write %s: %s", path, error)
