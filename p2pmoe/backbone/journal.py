"""What the accounts must not lose: kept in the durable spool before anything is sent.

Entries, by kind (big-endian):

    1 PRICES    packed price table
    2 GRANT     worker 32 | grant | the ledger's signature 64, missing in old ones
    3 LEAVES    worker 32 | manifest hash 32 | network 32 | profile u8 | leaves
    4 SIGNED    worker's signature 64 | ours 64 | u32 length | voucher | leaves
    5 FINAL     ours 64 | u32 length | voucher | leaves

LEAVES are written before their ACCEPT is sent, SIGNED before its COUNTERSIGN. A SIGNED
entry stays until the ledger has answered FILED and a later one has come; the newest,
and the leaves, until the book is complete. A FINAL is ours alone, written before it is
filed, and stays as long as its book. `Journal.read` gives the books back after a
restart: they are only completed then, never extended.
"""

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ledger.grant import GRANT_BYTES, Grant
from ledger.leaf import LEAF_BYTES, LEAF_STRUCT
from ledger.prices import PriceTable
from ledger.spool import Spool, SpoolEntry
from ledger.tally import TabTerms
from ledger.voucher import Voucher, voucher_hash
from p2pmoe.backbone.books import Book, Examined, build_leaves
from p2pmoe.backbone.servings import Served

__all__ = ["Filing", "Journal", "KeptGrant", "Restored"]

PRICES, GRANT, LEAVES, SIGNED, FINAL = 1, 2, 3, 4, 5
_LEAVES_HEAD = struct.Struct(">32s32s32sB")
_SIGNED_HEAD = struct.Struct(">64s64sI")
_FINAL_HEAD = struct.Struct(">64sI")
_TAB, _EPOCH = 1, 7  # places in LEAF_STRUCT
_WORKER = 32  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Filing:
    """A voucher with both signatures on its way to the ledger."""

    name: bytes  # the voucher's hash
    raw: bytes
    worker_signature: bytes  # b"" for a final of ours alone
    backbone_signature: bytes
    leaves: bytes
    entry: int  # in the spool

    @property
    def n_leaves(self) -> int:
        """How many servings it adds."""
        return len(self.leaves) // LEAF_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGrant:
    """A grant of an earlier run; its signature is b"" if that run did not keep it."""

    worker: bytes  # [32]
    grant: Grant
    signature: bytes


@dataclass(slots=True, kw_only=True)
class Restored:
    """What an earlier run of this process left in the spool."""

    books: list[Book] = field(default_factory=list)
    grants: list[KeptGrant] = field(default_factory=list)
    filings: list[Filing] = field(default_factory=list)


class Journal:
    """The spool, in this side's words. Blocking: called from a worker thread."""

    def __init__(self, spool: Spool, backbone: bytes) -> None:
        """Write to and read from `spool`, for the backbone of this id."""
        self._spool = spool
        self._backbone = backbone
        self._newest: dict[tuple[bytes, int], int] = {}  # (tab, epoch) -> SIGNED entry
        self._acknowledged: set[int] = set()  # those of `_newest` that were FILED
        self._entries: dict[tuple[bytes, int], list[int]] = {}  # (tab, epoch) -> leaves
        self._finals: dict[tuple[bytes, int], int] = {}  # (tab, epoch) -> FINAL entry
        self._prices: dict[bytes, int] = {}  # price table's hash -> entry
        self._grants: dict[int, bytes] = {}  # entry -> hash of its price table

    def write_prices(self, prices: PriceTable) -> None:
        """Keep a price table, once."""
        if prices.content_hash not in self._prices:
            entry = self._spool.append(PRICES, prices.pack())
            self._prices[prices.content_hash] = entry

    def write_grant(self, worker: bytes, grant: Grant, signature: bytes) -> None:
        """Keep a grant: vouchers will name it, and it is handed over once more."""
        entry = self._spool.append(GRANT, worker + grant.pack() + signature)
        self._grants[entry] = grant.price_table_hash

    def prune(self, kept: Collection[bytes]) -> None:
        """Forget price tables that are not among those kept, and grants at them."""
        prices = [name for name in self._prices if name not in kept]
        grants = [entry for entry, name in self._grants.items() if name not in kept]
        self._spool.release([*(self._prices.pop(name) for name in prices), *grants])
        for entry in grants:
            del self._grants[entry]

    def keep_served(self, jobs: list[tuple[Served, Book]]) -> list[tuple[Book, bytes]]:
        """Build, join by book, and keep durably the leaves of accepted answers."""
        blocks: dict[int, tuple[Book, list[bytes]]] = {}
        for served, book in jobs:
            entry = blocks.setdefault(id(book), (book, []))
            entry[1].append(build_leaves(served, book.prices))
        joined = [(book, b"".join(parts)) for book, parts in blocks.values()]
        self.write_leaves([(book.terms, block) for book, block in joined])
        return joined

    def write_leaves(self, blocks: Sequence[tuple[TabTerms, bytes]]) -> None:
        """Keep accepted leaves, durably when this returns."""
        for terms, block in blocks:
            head = _LEAVES_HEAD.pack(
                terms.worker, terms.manifest_hash, terms.network, terms.profile
            )
            entry = self._spool.append(LEAVES, head + block)
            epoch = LEAF_STRUCT.unpack_from(block)[_EPOCH]
            self._entries.setdefault((terms.tab, epoch), []).append(entry)
        self._spool.sync()

    def write_signed(self, examined: Examined, backbone_signature: bytes) -> Filing:
        """Keep a countersigned voucher, durably; it is to be filed."""
        signatures = (examined.worker_signature, backbone_signature)
        head = _SIGNED_HEAD.pack(*signatures, len(examined.raw))
        entry = self._spool.append(SIGNED, head + examined.raw + examined.leaves)
        self._spool.sync()
        key = (examined.voucher.tab, examined.voucher.price_epoch)
        superseded = self._newest.get(key)
        self._newest[key] = entry
        if superseded in self._acknowledged:
            self._acknowledged.remove(superseded)
            self._spool.release([superseded])
        return Filing(
            name=examined.name,
            raw=examined.raw,
            worker_signature=examined.worker_signature,
            backbone_signature=backbone_signature,
            leaves=examined.leaves,
            entry=entry,
        )

    def write_final(self, final: Examined, signature: bytes) -> Filing:
        """Keep a final that only we signed, durably; it is to be filed."""
        head = _FINAL_HEAD.pack(signature, len(final.raw))
        entry = self._spool.append(FINAL, head + final.raw + final.leaves)
        self._spool.sync()
        self._finals[final.voucher.tab, final.voucher.price_epoch] = entry
        return _final_filing(final, signature, entry)

    def filed(self, filings: Iterable[Filing]) -> None:
        """Forget vouchers that the ledger has, once their books have newer ones."""
        entries = {filing.entry for filing in filings} - set(self._finals.values())
        newest = entries.intersection(self._newest.values())
        self._acknowledged |= newest
        self._spool.release(entries - newest)

    def forget(self, tab: bytes, epoch: int) -> None:
        """Forget the leaves and the newest voucher of a book that is complete."""
        entries = self._entries.pop((tab, epoch), [])
        final = self._finals.pop((tab, epoch), None)
        if final is not None:
            entries = [*entries, final]
        newest = self._newest.pop((tab, epoch), None)
        if newest is not None:
            self._acknowledged.discard(newest)
            entries = [*entries, newest]
        self._spool.release(entries)

    def read(self) -> Restored:
        """Return what an earlier run left, its books rebuilt from their leaves."""
        entries = list(self._spool.entries())
        restored = Restored()
        prices = self._read_prices(entries)
        books: dict[tuple[bytes, int], Book] = {}
        for entry in entries:
            if entry.kind == GRANT:
                restored.grants.append(_read_grant(entry))
                price_table_hash = restored.grants[-1].grant.price_table_hash
                self._grants[entry.id] = price_table_hash
            elif entry.kind == LEAVES:
                self._read_leaves(entry, prices, books)
            elif entry.kind == SIGNED:
                restored.filings.append(_read_signed(entry))
        self._replay(restored.filings, books, restored.grants)
        for entry in entries:
            if entry.kind == FINAL:
                restored.filings += self._reseal(entry, books)
        restored.books = list(books.values())
        return restored

    def _read_prices(self, entries: Iterable[SpoolEntry]) -> dict[int, PriceTable]:
        tables = {}
        for entry in entries:
            if entry.kind == PRICES:
                table = PriceTable.parse(entry.payload)
                self._prices[table.content_hash] = entry.id
                tables[table.epoch] = table
        return tables

    def _read_leaves(
        self,
        entry: SpoolEntry,
        prices: dict[int, PriceTable],
        books: dict[tuple[bytes, int], Book],
    ) -> None:
        worker, manifest, network, profile = _LEAVES_HEAD.unpack_from(entry.payload)
        block = entry.payload[_LEAVES_HEAD.size :]
        first = LEAF_STRUCT.unpack_from(block)
        key = (first[_TAB], first[_EPOCH])
        if key not in books and key[1] in prices:
            terms = TabTerms(
                network=network,
                manifest_hash=manifest,
                profile=profile,
                worker=worker,
                backbone=self._backbone,
                tab=key[0],
            )
            books[key] = Book(terms, prices[key[1]])
        if key in books:
            books[key].accept(block)
        self._entries.setdefault(key, []).append(entry.id)

    def _replay(
        self,
        filings: Iterable[Filing],
        books: dict[tuple[bytes, int], Book],
        grants: Iterable[KeptGrant],
    ) -> None:
        """Bring each book to the last voucher signed for it."""
        names = {kept.grant.content_hash for kept in grants}
        for filing in filings:
            voucher = Voucher.parse(filing.raw)
            book = books.get((voucher.tab, voucher.price_epoch))
            if book is not None:
                examined = book.examine(filing.raw, filing.worker_signature, names)
                book.commit(examined, filing.backbone_signature)
                self._newest[voucher.tab, voucher.price_epoch] = filing.entry

    def _reseal(
        self, entry: SpoolEntry, books: dict[tuple[bytes, int], Book]
    ) -> list[Filing]:
        """Seal a book again; return its final, to be filed once more."""
        signature, length = _FINAL_HEAD.unpack_from(entry.payload)
        at = _FINAL_HEAD.size
        raw = entry.payload[at : at + length]
        voucher = Voucher.parse(raw)
        key = (voucher.tab, voucher.price_epoch)
        self._finals[key] = entry.id
        book = books.get(key)
        if book is None or book.is_closed:  # by this one: the worker signed it, too
            return []
        final = book.examine_final(raw)
        book.seal(final, signature)
        return [_final_filing(final, signature, entry.id)]


def _final_filing(final: Examined, signature: bytes, entry: int) -> Filing:
    return Filing(
        name=final.name,
        raw=final.raw,
        worker_signature=b"",
        backbone_signature=signature,
        leaves=final.leaves,
        entry=entry,
    )


def _read_grant(entry: SpoolEntry) -> KeptGrant:
    worker, rest = entry.payload[:_WORKER], entry.payload[_WORKER:]
    grant = Grant.parse(rest[:GRANT_BYTES])
    return KeptGrant(worker=worker, grant=grant, signature=rest[GRANT_BYTES:])


def _read_signed(entry: SpoolEntry) -> Filing:
    worker, backbone, length = _SIGNED_HEAD.unpack_from(entry.payload)
    at = _SIGNED_HEAD.size
    raw = entry.payload[at : at + length]
    return Filing(
        name=voucher_hash(raw),
        raw=raw,
        worker_signature=worker,
        backbone_signature=backbone,
        leaves=entry.payload[at + length :],
        entry=entry.id,
    )
