"""Finals that this side drafts alone: what a worker lost in a kill is paid after all.

A worker process that dies takes with it the leaves that it had not put into a voucher;
we have those that we accepted. When the worker is back with another tab, or has been
away for hours, the old book is sealed: a final voucher over everything accepted is
drafted, kept, filed with our signature alone (the ledger holds it) and offered to the
worker, at once and at each greeting, until it signs. Rules:

- first the worker has a while to have its own last proposal signed;
- a final claims under a grant of its own, of just its amount: those that the worker has
  are counted by both sides to their last micro-credit. Only at the prices of an earlier
  epoch, which no ledger grants any more, it names a grant that was left then;
- nothing is sealed for a worker that was caught with a wrong result;
- a sealed book signs nothing but its final, and its tab is never gone on with;
- a final that nobody signed is forgotten when the ledger has given it up.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import trio

from ledger.grant import Grant
from ledger.voucher import sign_voucher
from mobile_worker import messages
from mobile_worker.clock import Clock
from p2pmoe.backbone.books import Book
from p2pmoe.backbone.granting import GrantDesk
from p2pmoe.backbone.journal import Filing, Journal
from p2pmoe.backbone.settlement import Settlement
from p2pmoe.backbone.tabs import Tab
from p2pmoe.errors import VoucherRefused
from relay.keys import PeerId

__all__ = ["FinalParts", "Finals"]

log = logging.getLogger("p2pmoe.settlement")

SEAL_AFTER_S = 60.0  # since the worker came back with another tab
ABSENT_S = 6 * 3600.0  # since it was last seen, or since we started
OFFER_AGAIN_S = 600.0
ASK_AGAIN_S = 3.0
_HOUR_US = 3_600_000_000
_GIVEN_UP_US = 96 * _HOUR_US  # its grant has been released by then


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalParts:
    """What it works with; the bookkeeper has the same."""

    send: Callable[[PeerId, messages.Message], None]
    settlement: Settlement
    journal: Journal
    sign: Callable[[bytes], bytes]
    clock: Clock
    disk: trio.Lock  # one writer of the journal at a time
    grants: GrantDesk


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A grant for one final, under way."""

    key: tuple[bytes, int]
    worker: PeerId
    at: float


class Finals:
    """Seals books, offers their finals, and forgets those that came to nothing."""

    def __init__(self, parts: FinalParts) -> None:
        """Begin; nothing is due yet."""
        self._parts = parts
        self._lost: dict[tuple[bytes, int], float] = {}  # unsigned, not live: since
        self._offered: dict[tuple[bytes, int], float] = {}
        self._hopeless: set[tuple[bytes, int]] = set()  # cannot be summed any more
        self._asked: dict[int, _Asked] = {}  # by request
        self._granted: dict[tuple[bytes, int], Grant] = {}

    def on_grant(self, message: messages.Grant) -> bool:
        """Take the ledger's answer if it is to a request of ours; else False."""
        asked = self._asked.get(message.request)
        if asked is None:
            return False
        if message.error:
            return True  # asked again when it times out
        del self._asked[message.request]
        backbone = self._parts.settlement.terms.backbone
        grant = self._parts.grants.verified(message, asked.worker, backbone)
        if grant is not None:
            self._granted[asked.key] = grant
        return True

    async def seal_due(self) -> list[Filing]:
        """Seal the books that are due; return their finals, to be filed.

        Raises:
            LedgerError: the spool refused; it is tried again.
        """
        filings = []
        for tab, book, grant in self._due():
            try:
                filing = await self._seal(tab, book, grant)
            except VoucherRefused as error:
                log.warning("no final for worker %s: %s", tab.worker.hex()[:8], error)
                self._hopeless.add((tab.tab, book.prices.epoch))
            else:
                filings += filing
        return filings

    async def forget_given_up(self) -> None:
        """Drop sealed books whose final the ledger does not hold any more.

        Raises:
            LedgerError: the spool refused.
        """
        parts = self._parts
        before_us = parts.clock.wall_us() - _GIVEN_UP_US
        for tab, epoch, book in self._books():
            final = book.sealed
            if final is None or book.is_closed or final.voucher.issued_us > before_us:
                continue
            self._offered.pop((tab.tab, epoch), None)
            parts.settlement.forget(tab.tab, epoch)
            async with parts.disk:
                await trio.to_thread.run_sync(parts.journal.forget, tab.tab, epoch)

    def offer(self, worker: PeerId) -> None:
        """Offer a worker all finals that wait for its signature."""
        for tab, epoch, book in self._books():
            if tab.worker == worker:
                self._offer(tab, epoch, book)

    def offer_again(self) -> None:
        """Repeat offers to workers that are here, now and then."""
        now = self._parts.clock.monotonic()
        for tab, epoch, book in self._books():
            told = self._offered.get((tab.tab, epoch))
            if told is not None and now - told >= OFFER_AGAIN_S:
                self._offer(tab, epoch, book)

    def _due(self) -> list[tuple[Tab, Book, Grant]]:
        now = self._parts.clock.monotonic()
        settlement = self._parts.settlement
        lost = {
            (tab.tab, epoch): (tab, book)
            for tab, epoch, book in self._books()
            if not tab.live and book.unsigned and book.sealed is None
        }
        self._lost = {key: self._lost.get(key, now) for key in lost}
        due = []
        for key, (tab, book) in lost.items():
            is_replaced = settlement.tab_of(tab.worker) not in {b"", tab.tab}
            patience_s = SEAL_AFTER_S if is_replaced else ABSENT_S
            if key in self._hopeless or now - self._lost[key] < patience_s:
                continue
            grant = self._grant_for(key, tab.worker, book)
            if grant is not None:
                due.append((tab, book, grant))
        return due

    def _grant_for(
        self, key: tuple[bytes, int], worker: PeerId, book: Book
    ) -> Grant | None:
        """Return a grant that a final may claim under, asked for if need be."""
        settlement = self._parts.settlement
        if book.is_closed or settlement.is_withheld(worker):
            return None
        if settlement.prices is not None and book.prices == settlement.prices:
            granted = self._granted.get(key)
            if granted is None or granted.ceiling_uc < book.unsigned_uc:
                self._ask(key, worker, book.unsigned_uc)
                return None
            return granted
        return self._left_over(worker, book)

    def _ask(self, key: tuple[bytes, int], worker: PeerId, amount_uc: int) -> None:
        now = self._parts.clock.monotonic()
        for request, asked in list(self._asked.items()):
            if asked.key == key:
                if now - asked.at < ASK_AGAIN_S:
                    return
                del self._asked[request]
        number = self._parts.grants.ask(worker, amount_uc)
        self._asked[number] = _Asked(key=key, worker=worker, at=now)

    def _left_over(self, worker: PeerId, book: Book) -> Grant | None:
        """Return the newest grant at a book's prices that the ledger still takes."""
        prices, now_us = book.prices.content_hash, self._parts.clock.wall_us()
        fitting = [
            grant
            for grant in self._parts.settlement.grants_of(worker)
            if grant.price_table_hash == prices
            and grant.expiry_us + 47 * _HOUR_US > now_us
        ]
        return max(fitting, key=lambda grant: grant.expiry_us, default=None)

    async def _seal(self, tab: Tab, book: Book, grant: Grant) -> list[Filing]:
        parts = self._parts
        async with parts.disk:
            if book.is_closed or not book.unsigned:  # meanwhile
                return []
            final = book.draft_final(grant.content_hash, parts.clock.wall_us())
            signature = sign_voucher(final.raw, parts.sign)
            filing = await trio.to_thread.run_sync(
                parts.journal.write_final, final, signature
            )
            book.seal(final, signature)
        self._granted.pop((tab.tab, book.prices.epoch), None)
        parts.settlement.sealed(tab)
        self._offer(tab, book.prices.epoch, book)
        return [filing]

    def _offer(self, tab: Tab, epoch: int, book: Book) -> None:
        if book.sealed is None or book.is_closed:
            self._offered.pop((tab.tab, epoch), None)
            return
        self._offered[tab.tab, epoch] = self._parts.clock.monotonic()
        self._parts.send(
            tab.worker,
            messages.File(
                voucher=book.sealed.raw,
                worker_signature=b"",
                backbone_signature=book.seal_signature,
                leaves=book.sealed.leaves,
            ),
        )

    def _books(self) -> list[tuple[Tab, int, Book]]:
        tabs = self._parts.settlement.tabs.values()
        return [(tab, epoch, book) for tab in tabs for epoch, book in tab.books.items()]
