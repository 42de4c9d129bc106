"""The waiting side of the accounts: batches, signatures, filing, grants.

Tasks around `Settlement`; none of them is ever awaited by a decode step. Rules:

- accepted answers become leaves in batches on a worker thread, are made durable, and
  only then is their ACCEPT sent; a batch that the worker's vouchers do not cover after
  a while, or when its worker comes back, is accepted again (messages may be lost,
  ACCEPT is idempotent);
- a VOUCHER is examined against our own leaves, made durable with our signature, then
  countersigned and filed; the same voucher again gets the same answer;
- vouchers are filed tab by tab in their order, those that wait together as one, again
  until the ledger answers FILED; a rejected one is logged, kept and counted;
- what a worker lost in a kill is sealed and offered (`finals.py`);
- a worker that needs a grant gets one from the ledger, forwarded as it is, and at each
  greeting all that are in force: of this run, and of those before it;
- while the spool is full or its disk fails nothing is accepted or signed, so that the
  floats end serving; what was decided is kept and tried again.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from ledger.errors import LedgerError
from ledger.grant import Grant
from ledger.prices import verify_price_table
from ledger.voucher import Voucher, sign_voucher, voucher_hash
from mobile_worker import messages
from mobile_worker.clock import Clock
from mobile_worker.errors import LocalError
from p2pmoe.backbone.books import Book
from p2pmoe.backbone.filings import Filings
from p2pmoe.backbone.finals import FinalParts, Finals
from p2pmoe.backbone.granting import GrantDesk, GrantSizes
from p2pmoe.backbone.journal import Journal
from p2pmoe.backbone.served_rows import ServedRows
from p2pmoe.backbone.settlement import Settlement
from p2pmoe.backbone.tabs import Tab
from p2pmoe.errors import VoucherRefused
from relay.keys import PeerId

__all__ = ["Bookkeeper", "BookkeeperParts"]

log = logging.getLogger("p2pmoe.settlement")

ACCEPT_AGAIN_S = 2.0
GRANT_AGAIN_S = 3.0
DISK_AGAIN_S = 1.0
FORGET_AFTER_S = 60.0  # a tab that was replaced gets its final voucher before


@dataclass(frozen=True, slots=True, kw_only=True)
class BookkeeperParts:
    """What the bookkeeper works with; `send` queues a message and never blocks."""

    send: Callable[[PeerId, messages.Message], None]
    settlement: Settlement
    journal: Journal
    sign: Callable[[bytes], bytes]
    clock: Clock
    market: PeerId
    ledger: PeerId
    interval_s: float = 0.05
    served_rows: ServedRows = field(default_factory=ServedRows)


@dataclass(slots=True, kw_only=True)
class _Wanted:
    """A grant request under way."""

    worker: PeerId
    sent_at: float


class Bookkeeper:
    """Keeps `Settlement` true to the disk, the workers and the ledger."""

    def __init__(self, parts: BookkeeperParts) -> None:
        """Begin; `restore` first if the journal is not new."""
        self._parts = parts
        self._settlement = parts.settlement
        self.filings = Filings()
        self._wanted: dict[int, _Wanted] = {}
        self._refusal = ""  # the ledger's last one
        self._told: dict[bytes, float] = {}  # tab -> last ACCEPT
        self._complete: dict[tuple[bytes, int], float] = {}  # (tab, epoch) -> since
        self._grants: dict[PeerId, list[messages.Grant]] = {}  # handed over
        self._desk = GrantDesk(self._tell, parts.ledger)
        self._sizes = GrantSizes()
        self._settled = trio.Event()
        self._disk = trio.Lock()  # one writer of the journal at a time
        self._finals = Finals(
            FinalParts(
                send=self._tell,
                settlement=parts.settlement,
                journal=parts.journal,
                sign=parts.sign,
                clock=parts.clock,
                disk=self._disk,
                grants=self._desk,
            )
        )

    async def run(self) -> None:
        """Batch, repeat and ask, until cancelled."""
        last_slow = self._parts.clock.monotonic()
        while True:
            await trio.sleep(self._parts.interval_s)
            self.request_grants()
            now = self._parts.clock.monotonic()
            if now - last_slow >= 0.5:
                last_slow = now
                self.repeat()
            try:
                await self.harvest()
                if last_slow == now:
                    await self._forget_complete(now)
                    await self._finish_lost()
            except LedgerError as error:
                log.warning("the spool of the accounts: %s", error)
                await trio.sleep(DISK_AGAIN_S)
            self._note_settled()

    async def restore(self) -> None:
        """Take over what an earlier run of this process left in the journal."""
        restored = await trio.to_thread.run_sync(self._parts.journal.read)
        for kept in restored.grants:
            worker, grant = PeerId(kept.worker), kept.grant
            if kept.signature:
                message = messages.Grant(
                    request=0, grant=grant.pack(), signature=kept.signature, error=""
                )
                self._grants.setdefault(worker, []).append(message)
            self._settlement.granted(worker, grant.content_hash, grant, restored=True)
        for book in restored.books:
            self._settlement.restored(book)
        for filing in restored.filings:
            self.filings.add(filing)

    # Leaves and acceptance.

    async def harvest(self) -> None:
        """Make leaves of what was accepted, keep them, and tell the workers."""
        async with self._disk:
            jobs = [
                (served, self._settlement.book_of(served.slot))
                for served in self._settlement.fresh
            ]
            if not jobs:
                return
            blocks = await trio.to_thread.run_sync(
                self._parts.journal.keep_served, jobs
            )
            del self._settlement.fresh[: len(jobs)]
            for served, _ in jobs:
                self._parts.served_rows.keep(served)
            for served, _ in jobs:
                self._settlement.costed(served)
            accepted = [(book, book.accept(block)) for book, block in blocks]
        now = self._parts.clock.monotonic()
        for book, ranges in accepted:
            tab = book.terms.tab
            self._told[tab] = now
            worker = PeerId(book.terms.worker)
            self._tell(worker, messages.Accept(tab=tab, ranges=ranges))

    # Vouchers.

    async def on_voucher(self, peer: PeerId, message: messages.Voucher) -> None:
        """Answer a worker's voucher with our signature, or say why not."""
        await self.harvest()
        async with self._disk:
            answer = await self._countersign(peer, message)
        self._tell(peer, answer)

    async def _countersign(
        self, peer: PeerId, message: messages.Voucher
    ) -> messages.Countersign:
        name = voucher_hash(message.voucher)
        error, signature = "", b""
        try:
            book, voucher = self._book_of_voucher(peer, message.voucher)
            if book.last is not None and book.last.raw == message.voucher:
                return messages.Countersign(
                    voucher_hash=book.last.name,
                    backbone_signature=book.last_signature,
                    error="",
                )
            examined = await trio.to_thread.run_sync(
                book.examine,
                message.voucher,
                message.worker_signature,
                self._settlement.grant_names(peer),
            )
            signature = sign_voucher(message.voucher, self._parts.sign)
            filing = await trio.to_thread.run_sync(
                self._parts.journal.write_signed, examined, signature
            )
            before_uc = book.last.voucher.amount_uc if book.last else 0
            book.commit(examined, signature)
            self._settlement.receipted(peer, voucher.tab, examined.n_leaves)
            added_uc = voucher.amount_uc - before_uc
            self._settlement.claimed(peer, voucher.grant_hash, added_uc)
            self.filings.add(filing)
            self._file_due()
        except VoucherRefused as refused:
            log.warning("voucher of worker %s: %s", peer.hex()[:8], refused)
            error = str(refused)[:200]
        return messages.Countersign(
            voucher_hash=name, backbone_signature=signature, error=error
        )

    def _book_of_voucher(self, peer: PeerId, raw: bytes) -> tuple[Book, Voucher]:
        try:
            voucher = Voucher.parse(raw)
        except LedgerError as error:
            raise VoucherRefused(str(error), peer=peer) from error
        tab = self._settlement.tabs.get(voucher.tab)
        if tab is None or tab.worker != peer:
            raise VoucherRefused("a voucher for no tab of this worker", peer=peer)
        if self._settlement.is_withheld(peer):
            raise VoucherRefused("withheld after a wrong result", peer=peer)
        book = tab.books.get(voucher.price_epoch)
        if book is None:
            raise VoucherRefused(
                f"nothing accepted in price epoch {voucher.price_epoch}", peer=peer
            )
        return book, voucher

    # The ledger.

    def ledger_is_back(self) -> None:
        """File at once what waits, and ask for grants again: it may be listening."""
        self.filings.hurry()
        self._file_due()
        for wanted in self._wanted.values():
            wanted.sent_at = float("-inf")

    def _file_due(self) -> None:
        for file in self.filings.due(self._parts.clock.monotonic()):
            self._tell(self._parts.ledger, file)

    async def on_filed(self, message: messages.Filed) -> None:
        """Take the ledger's word on a voucher."""
        filed = self.filings.filed(message, self._parts.clock.monotonic())
        self._file_due()
        if filed:
            async with self._disk:
                await trio.to_thread.run_sync(self._parts.journal.filed, filed)

    def on_open(self, message: messages.Open) -> messages.Opened:
        """Return the rows of a serving that the ledger's beacon chose."""
        return self._parts.served_rows.open(message)

    # Prices and grants.

    async def on_prices(self, table: bytes, signature: bytes) -> None:
        """Take a price table, if the market signed it; LedgerError if not."""
        if (table, signature) == self._desk.prices:
            return
        prices = verify_price_table(table, signature, self._parts.market)
        async with self._disk:
            await trio.to_thread.run_sync(self._parts.journal.write_prices, prices)
        self._desk.prices = (table, signature)
        self._settlement.priced(prices)
        kept = self._settlement.prune()
        async with self._disk:
            await trio.to_thread.run_sync(self._parts.journal.prune, kept)

    def request_grants(self) -> None:
        """Ask the ledger for the grants that workers need now."""
        prices = self._settlement.prices
        if prices is None:
            return
        for worker in self._settlement.grants_to_request():
            n_rows = self._sizes.next_rows(worker, prices.epoch)
            request = self._desk.ask(worker, n_rows * prices.base_uc)
            sent_at = self._parts.clock.monotonic()
            self._wanted[request] = _Wanted(worker=worker, sent_at=sent_at)

    def greeted(self, worker: PeerId) -> None:
        """Hand a worker its grants and ACCEPTs again: they may have been lost."""
        now_us = self._parts.clock.wall_us()
        known = self._grants.pop(worker, [])
        live = [each for each in known if Grant.parse(each.grant).expiry_us > now_us]
        if live:
            self._grants[worker] = live
        for message in live:
            self._tell(worker, message)
        for tab in self._settlement.tabs.values():
            if tab.worker == worker:
                self._accept_again(tab)
        self._finals.offer(worker)
        self.request_grants()

    async def on_grant(self, message: messages.Grant) -> None:
        """Take the ledger's answer to a grant request, and hand it to the worker."""
        wanted = self._wanted.pop(message.request, None)
        if wanted is None:
            self._finals.on_grant(message)
            return
        if message.error:
            if message.error != self._refusal:  # it is asked again and again
                self._refusal = message.error
                log.warning(
                    "no grant to pay worker %s with, so it is not asked: %s",
                    wanted.worker.hex()[:8],
                    message.error,
                )
            self._wanted[message.request] = wanted  # asked again when it times out
            return
        backbone = self._settlement.terms.backbone
        grant = self._desk.verified(message, wanted.worker, backbone)
        if grant is None:
            self._settlement.ungranted(wanted.worker)
            return
        try:
            async with self._disk:
                await trio.to_thread.run_sync(
                    self._parts.journal.write_grant,
                    wanted.worker,
                    grant,
                    message.signature,
                )
        except LedgerError:
            self._settlement.ungranted(wanted.worker)
            raise
        self._sizes.granted(wanted.worker)
        self._grants.setdefault(wanted.worker, []).append(message)
        self._tell(wanted.worker, message)
        self._settlement.granted(wanted.worker, grant.content_hash, grant)

    # Repetition.

    def repeat(self) -> None:
        """Send again what has not been answered for too long."""
        now = self._parts.clock.monotonic()
        self._file_due()
        for request, wanted in list(self._wanted.items()):
            if now - wanted.sent_at >= GRANT_AGAIN_S:
                del self._wanted[request]
                self._settlement.ungranted(wanted.worker)
        for tab in self._settlement.tabs.values():
            if tab.live and now - self._told.get(tab.tab, now) >= ACCEPT_AGAIN_S:
                self._accept_again(tab)

    def _accept_again(self, tab: Tab) -> None:
        self._told[tab.tab] = self._parts.clock.monotonic()
        for book in tab.books.values():
            if book.unsigned:
                self._tell(
                    tab.worker, messages.Accept(tab=tab.tab, ranges=book.unsigned)
                )

    async def _forget_complete(self, now: float) -> None:
        """Drop from the journal the leaves of books that get no more signatures."""
        for tab, epoch, book in self._settlement.complete():
            since = self._complete.setdefault((tab, epoch), now)
            if not book.is_closed and now - since < FORGET_AFTER_S:
                continue
            if book.last is None or not self.filings.holds(book.last.name):
                del self._complete[tab, epoch]
                self._settlement.forget(tab, epoch)
                async with self._disk:
                    await trio.to_thread.run_sync(
                        self._parts.journal.forget, tab, epoch
                    )

    async def _finish_lost(self) -> None:
        """File finals for tabs that their workers lost."""
        self._finals.offer_again()
        for filing in await self._finals.seal_due():
            self.filings.add(filing)
        await self._finals.forget_given_up()

    async def settled(self) -> None:
        """Wait until `is_settled`; `run` must be running."""
        self._note_settled()
        while not self._settled.is_set():
            await self._settled.wait()

    def _note_settled(self) -> None:
        if self.is_settled():
            self._settled.set()
        elif self._settled.is_set():
            self._settled = trio.Event()

    def is_settled(self) -> bool:
        """Whether every accepted serving of a live worker is signed and filed."""
        return not self.filings and not self._settlement.is_pending()

    def _tell(self, peer: PeerId, message: messages.Message) -> None:
        try:
            self._parts.send(peer, message)
        except LocalError as error:
            log.info("to %s: %s", peer.hex()[:8], error)
