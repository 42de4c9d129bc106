"""This side's accounts: who may be asked, what was accepted, what has a receipt.

State only; the trio side calls it, `bookkeeper.py` does the waiting. Rules:

- a worker is asked only with a tab (from its HELLO), a price table, an unexpired grant
  with room below its ceiling, and room in its float; all are checked per dispatch;
- serving numbers of a tab are used once, ever: a tab known from an earlier run of this
  process is taken up far above every number that it may have used;
- a serving is at risk from its number until it is abandoned or countersigned;
- nothing is signed any more for a worker that was caught with a wrong result;
- accepted servings = receipted + pending, and pending of a lost tab is what a kill
  costs its worker (`unsigned_at_kill`).
"""

from collections.abc import Callable

from ledger.grant import Grant
from ledger.prices import PriceTable
from ledger.ranges import count
from ledger.tally import TabTerms
from p2pmoe.backbone.books import Book
from p2pmoe.backbone.price_tables import PriceTables
from p2pmoe.backbone.servings import Means, Served, ServingSlot
from p2pmoe.backbone.tabs import (
    ServingTotals,
    SettlementTerms,
    Tab,
    WorkerAccount,
)
from relay.keys import PeerId

__all__ = ["Settlement", "SettlementTerms"]

RESTART_GAP = 1 << 20  # servings skipped when a tab outlives this process
WORN_SERVINGS = 1 << 18  # the journal keeps a tab's leaves until it is closed
EXTEND_BELOW = 0.5  # ask for a further grant when less than this share is left
MAX_OPEN_GRANTS = 3  # of one worker: each holds our money until long after its expiry
NUMBERS = 1 << 32


class Settlement:
    """All accounts of this backbone; implements `servings.Accounts`."""

    def __init__(
        self,
        terms: SettlementTerms,
        wall_us: Callable[[], int],
        on_means: Callable[[PeerId, Means], None],
    ) -> None:
        """Begin without accounts; `on_means` hears what there is for whom."""
        self.terms = terms
        self._tables = PriceTables()
        self._past = [0, 0, 0]  # accepted, receipted, lost; of forgotten books
        self.tabs: dict[bytes, Tab] = {}
        self.fresh: list[Served] = []  # accepted, no leaves yet
        self._accounts: dict[PeerId, WorkerAccount] = {}
        self._wall_us = wall_us
        self._on_means = on_means

    @property
    def prices(self) -> PriceTable | None:
        """The price table in force, None before the first."""
        return self._tables.current

    # The dispatcher's side (servings.Accounts).

    def room(self, peer: PeerId) -> int:
        """Return how many calls this worker may be sent now."""
        account = self._accounts.get(peer)
        grants = self._usable(account) if account else []
        if account is None or not grants:
            return 0
        return max(0, grants[0].float_leaves - account.at_risk)

    def means(self, peer: PeerId) -> Means:
        """Tell whether this worker can be paid for a further call."""
        if self.room(peer):
            return Means.ROOM
        account = self._accounts.get(peer)
        return Means.FULL if account and self._usable(account) else Means.NONE

    def number(self, peer: PeerId, n_calls: int, n_rows: int) -> ServingSlot | None:
        """Reserve serving numbers, or None if this worker must not be asked now."""
        if self.prices is None or self.room(peer) < n_calls:
            self._tell(peer)
            return None
        account = self._accounts[peer]
        tab = account.tab
        if tab is None or tab.next_serving + n_calls > NUMBERS:
            return None
        slot = ServingSlot(
            peer=peer,
            tab=tab.tab,
            first=tab.next_serving,
            n=n_calls,
            n_rows=n_rows,
            price_epoch=self.prices.epoch,
        )
        tab.next_serving += n_calls
        account.at_risk += n_calls
        account.used_uc += self._tables.bound_uc(slot)
        self._tell(peer)
        return slot

    def accept(self, served: Served) -> None:
        """Note an answer that was valid and in time: it will be paid."""
        self.fresh.append(served)

    def abandon(self, slot: ServingSlot) -> None:
        """Give back the risk of numbers that will never be accepted."""
        account = self._accounts[slot.peer]
        if self._tables.is_current(slot):
            used_uc = account.used_uc - self._tables.bound_uc(slot)
            account.used_uc = max(0, used_uc)
        if account.tab is not None and account.tab.tab == slot.tab:
            account.at_risk = max(0, account.at_risk - slot.n)
        self._tell(slot.peer)

    def withhold(self, peer: PeerId) -> None:
        """Sign nothing more for this worker: it was caught with a wrong result."""
        self._account(peer).withheld = True
        self._tell(peer)

    def refused_for_grant(self, peer: PeerId) -> None:
        """Pause a worker that lacks a grant or room until either comes."""
        self._account(peer).paused = True
        self._tell(peer)

    # The network's side.

    def priced(self, prices: PriceTable) -> None:
        """Take a newer price table; grants under the older one end."""
        if self._tables.take(prices):
            for peer, account in self._accounts.items():
                account.open = [g for g in account.grants.values() if self._fits(g)]
                account.used_uc = 0
                self._tell(peer)

    def prune(self) -> frozenset[bytes]:
        """Forget prices and grants that no open book needs; return the prices kept.

        They are named by their hashes.
        """
        books = [book for tab in self.tabs.values() for book in tab.books.values()]
        in_use = {served.slot.price_epoch for served in self.fresh}
        kept = self._tables.prune(in_use, [book.prices for book in books])
        for account in self._accounts.values():
            account.prune(kept)
        return kept

    def costed(self, served: Served) -> None:
        """Count an answer at its price: until now it counted at the dearest."""
        account = self._accounts[served.slot.peer]
        spare_uc = self._tables.spare_uc(served)
        if spare_uc:
            account.used_uc = max(0, account.used_uc - spare_uc)
            self._tell(served.slot.peer)

    def greeted(self, peer: PeerId, tab: bytes) -> None:
        """Take a worker's tab from its HELLO; another one closes the one before.

        A tab that belongs to another worker is not taken.
        """
        known = self.tabs.setdefault(tab, Tab(worker=peer, tab=tab))
        if known.worker != peer:
            return
        account = self._account(peer)
        account.paused = False
        if account.tab is not known:
            if account.tab is not None:
                account.tab.live = False
                if not account.tab.is_used:
                    del self.tabs[account.tab.tab]
            account.tab = known
            books = known.books.values()
            account.at_risk = sum(count(book.unsigned) for book in books)
        known.live = True
        self._tell(peer)

    def lost(self, peer: PeerId) -> None:
        """Note that a worker is gone; its HELLO brings the tab back."""
        account = self._accounts.get(peer)
        if account is not None and account.tab is not None:
            account.tab.live = False
            account.wanted = False
            self._tell(peer)

    def granted(
        self, peer: PeerId, name: bytes, grant: Grant, *, restored: bool = False
    ) -> None:
        """Take a verified grant for this worker; `restored`: of an earlier run."""
        account = self._account(peer)
        if not restored:
            account.of_run.add(name)
        if name not in account.grants and self._fits(grant):
            account.open.append(grant)
        account.grants[name] = grant
        account.wanted = account.paused = False
        self._tell(peer)

    def ungranted(self, peer: PeerId) -> None:
        """Note that a grant request was refused or lost: it may be asked again."""
        self._account(peer).wanted = False

    def grants_to_request(self) -> list[PeerId]:
        """Return the workers that need a (further) grant; each is named once."""
        needy: list[PeerId] = []
        if self.prices is None:
            return needy
        for peer, account in self._accounts.items():
            if account.tab is None or not account.tab.live or account.withheld:
                continue
            ceiling = sum(grant.ceiling_uc for grant in self._open(account))
            left = ceiling - account.used_uc
            if (
                not account.wanted
                and (account.paused or left <= ceiling * EXTEND_BELOW)
                and self._n_open_of_run(account) < MAX_OPEN_GRANTS
            ):
                account.wanted = True
                needy.append(peer)
        return needy

    def tab_of(self, peer: PeerId) -> bytes:
        """Return the tab of a worker, b"" if it has none with this process."""
        account = self._accounts.get(peer)
        return account.tab.tab if account and account.tab else b""

    def is_worn(self, peer: PeerId) -> bool:
        """Whether a worker's tab has served so much that a new one should follow."""
        account = self._accounts.get(peer)
        tab = account.tab if account else None
        return tab is not None and tab.next_serving >= WORN_SERVINGS

    def grants_of(self, peer: PeerId) -> list[Grant]:
        """Return all grants that this worker ever had from us, oldest first."""
        account = self._accounts.get(peer)
        return list(account.grants.values()) if account else []

    def sealed(self, tab: Tab) -> None:
        """Note that a tab got a final from us alone: it is never gone on with."""
        tab.live = False
        account = self._account(tab.worker)
        if account.tab is tab:
            account.tab, account.at_risk = None, 0
            self._tell(tab.worker)

    def grant_names(self, peer: PeerId) -> frozenset[bytes]:
        """Return the hashes of all grants that this worker ever had from us."""
        account = self._accounts.get(peer)
        return frozenset(account.grants if account else ())

    # The books.

    def book_of(self, slot: ServingSlot) -> Book:
        """Return the book that a serving belongs to, opened if need be."""
        tab = self.tabs[slot.tab]
        book = tab.books.get(slot.price_epoch)
        if book is None:
            terms = TabTerms(
                network=self.terms.network,
                manifest_hash=self.terms.manifest_hash,
                profile=self.terms.profile,
                worker=tab.worker,
                backbone=self.terms.backbone,
                tab=slot.tab,
            )
            book = Book(terms, self._tables.of(slot.price_epoch))
            tab.books[slot.price_epoch] = book
        return book

    def restored(self, book: Book) -> None:
        """Take a book over from an earlier run of this process: never extended."""
        terms = book.terms
        tab = self.tabs.get(terms.tab)
        if tab is None:
            tab = Tab(worker=PeerId(terms.worker), tab=terms.tab, live=False)
            self.tabs[terms.tab] = tab
            self._account(tab.worker)
        tab.books[book.prices.epoch] = book
        used = book.accepted[-1][1] + 1 if book.accepted else 0
        tab.next_serving = max(tab.next_serving, used + RESTART_GAP)

    def knows(self, peer: PeerId) -> bool:
        """Whether this worker has, or had, a tab or a grant."""
        return peer in self._accounts

    def is_withheld(self, peer: PeerId) -> bool:
        """Whether nothing is signed any more for this worker."""
        account = self._accounts.get(peer)
        return account is not None and account.withheld

    def receipted(self, peer: PeerId, tab: bytes, n: int) -> None:
        """Give back the risk of servings that now have both signatures."""
        account = self._account(peer)
        if account.tab is not None and account.tab.tab == tab:
            account.at_risk = max(0, account.at_risk - n)
            account.paused = False
            self._tell(peer)

    def claimed(self, peer: PeerId, name: bytes, amount_uc: int) -> None:
        """Note what a voucher claims under a grant: those before it are used up.

        Workers use grants oldest first. What an earlier run of ours used of one we do
        not know, so without this we would wait for room that is long gone.
        """
        account = self._account(peer)
        claimed_uc = account.claimed_uc.get(name, 0) + amount_uc
        account.claimed_uc[name] = claimed_uc
        names = [grant.content_hash for grant in account.open]
        if name not in names:
            return
        gone = account.open[: names.index(name)]
        del account.open[: len(gone)]
        for grant in gone:
            account.claimed_uc.pop(grant.content_hash, None)
        gone_uc = sum(grant.ceiling_uc for grant in gone)
        account.used_uc = max(claimed_uc, account.used_uc - gone_uc)
        self._tell(peer)

    def totals(self) -> ServingTotals:
        """Return the servings accepted, receipted, and lost unsigned."""
        accepted, receipted, lost = self._past
        accepted += sum(served.slot.n for served in self.fresh)
        for tab in self.tabs.values():
            for book in tab.books.values():
                accepted += book.n_accepted
                receipted += book.n_receipted
                if not tab.live:
                    lost += book.n_accepted - book.n_receipted
        return ServingTotals(
            accepted=accepted, receipted=receipted, unsigned_at_kill=lost
        )

    def is_pending(self) -> bool:
        """Whether an accepted serving of a live worker has no receipt yet."""
        return bool(self.fresh) or any(
            book.unsigned
            for tab in self.tabs.values()
            if tab.live and not self.is_withheld(tab.worker)
            for book in tab.books.values()
        )

    def complete(self) -> list[tuple[bytes, int, Book]]:
        """Return (tab, epoch, book) of books that lack no signature any more.

        Those whose worker has another tab now, and those that are closed: a replaced
        tab may still get its final voucher.
        """
        present = {peer: account.tab for peer, account in self._accounts.items()}
        return [
            (tab.tab, epoch, book)
            for tab in self.tabs.values()
            for epoch, book in tab.books.items()
            if book.is_closed
            or (present.get(tab.worker) not in {None, tab} and not book.unsigned)
        ]

    def forget(self, tab: bytes, epoch: int) -> None:
        """Drop a complete book; its servings stay in the totals."""
        book = self.tabs[tab].books.pop(epoch)
        self._past[0] += book.n_accepted
        self._past[1] += book.n_receipted
        self._past[2] += book.n_accepted - book.n_receipted

    def _account(self, peer: PeerId) -> WorkerAccount:
        return self._accounts.setdefault(peer, WorkerAccount())

    def _fits(self, grant: Grant) -> bool:
        return grant.price_table_hash == self._tables.current_hash

    def _usable(self, account: WorkerAccount) -> list[Grant]:
        """Return the open grants of a worker for which something may be signed."""
        if account.withheld or account.paused:
            return []
        if account.tab is None or not account.tab.live:
            return []
        return self._open(account)

    def _open(self, account: WorkerAccount) -> list[Grant]:
        """Drop grants that are expired or used up, and return the others.

        Grants are used oldest first, as workers do; with a grant goes its use.
        """
        now = self._wall_us()
        while account.open:
            oldest = account.open[0]
            if oldest.expiry_us > now and account.used_uc < oldest.ceiling_uc:
                break
            account.used_uc = max(0, account.used_uc - oldest.ceiling_uc)
            del account.open[0]
        return account.open

    def _n_open_of_run(self, account: WorkerAccount) -> int:
        names = (grant.content_hash for grant in self._open(account))
        return sum(name in account.of_run for name in names)

    def _tell(self, peer: PeerId) -> None:
        self._on_means(peer, self.means(peer))
