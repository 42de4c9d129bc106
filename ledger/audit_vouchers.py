"""Audit: vouchers, their filings, and the leaves under them.

Contract: of every current voucher both signatures are checked, its leaves are read from
the leaf files and priced again, and its root, ranges and sums recomputed. What each
filing added is recomputed from the leaves at its own place, so that no value can be
moved between two filings; together the places fill the leaf files without gap or
overlap. Where leaves were pruned by the policy, sums alone are compared. Each filing
demands the transfer that earned what it added. Reads only; raises `DifferenceFound`.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Row, func, select

from ledger.accounts import AccountKind, TransferCode
from ledger.audit_books import Books, Filed, naming, same
from ledger.database import LedgerFolder
from ledger.errors import DifferenceFound, OutOfWindow
from ledger.experts import ExpertSums
from ledger.leaf import LEAF_BYTES, Leaf, split_leaves
from ledger.leaf_files import LeafPlace, read_leaves
from ledger.prices import PriceTable
from ledger.schema import filing, leaf_file, voucher
from ledger.schema_closing import closing, dispute, leaf_file_state, voucher_expert
from ledger.tally import TabTerms, Tally
from ledger.voucher import SignedVoucher, Voucher, voucher_hash

__all__ = ["check_vouchers"]

_COLUMNS = (
    "worker",
    "backbone",
    "tab",
    "price_epoch",
    "number",
    "leaves",
    "rows",
    "amount_uc",
)
_MAX_LEAVES = 1 << 20  # in one filing: eight times what the ledger takes
_ROWS_AT_ONCE = 500
_CHUNK_BYTES = 1024 * LEAF_BYTES


@dataclass(frozen=True, slots=True)
class _Voucher:
    """A voucher whose signatures and columns are right."""

    id: int  # of its row
    name: str
    voucher: Voucher
    signed: SignedVoucher
    posted_us: int


class _Places:
    """Where leaves lie, and which of their files are gone."""

    def __init__(
        self, connection: Connection, folder: LedgerFolder, *, is_full: bool
    ) -> None:
        self.folder = folder.leaves
        self.is_full = is_full
        rows = connection.execute(select(leaf_file))
        self.lengths = {row.number: row.length_bytes for row in rows}
        states = connection.execute(select(leaf_file_state))
        self.packed: dict[int, bytes] = {}  # number -> SHA-256 of the plain bytes
        self.pruned: dict[int, int] = {}  # number -> when
        for row in states:
            if row.state == "pruned":
                self.pruned[row.number] = row.changed_us
            else:
                self.packed[row.number] = row.digest
        self.gone_us: dict[int, int] = {}  # voucher -> when leaves of it were pruned
        self.taken: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def read(self, filed: Row[Any]) -> bytes | None:
        """Return a filing's leaves; None where they were pruned or are left out."""
        if filed.leaves > _MAX_LEAVES:
            raise DifferenceFound(
                f"filing {filed.content_hash[:4].hex()}: {filed.leaves} leaves at once"
            )
        n_bytes = filed.leaves * LEAF_BYTES
        place = LeafPlace(filed.leaf_file, filed.leaf_offset)
        self.taken[place.file].append((place.offset, place.offset + n_bytes))
        if place.offset + n_bytes > self.lengths.get(place.file, 0):
            raise DifferenceFound(
                f"filing {filed.content_hash[:4].hex()}: its leaves lie beyond "
                f"the end of leaf file {place.file}"
            )
        if n_bytes and place.file in self.pruned:
            self.gone_us[filed.voucher_id] = self.pruned[place.file]
            return None
        return read_leaves(self.folder, place, n_bytes) if self.is_full else None

    def check(self) -> None:
        """Check that the filings fill every leaf file without gap or overlap."""
        for number in sorted(self.lengths.keys() | self.taken.keys()):
            end = 0
            for start, upto in sorted(self.taken[number]):
                same(f"leaf file {number}", "next place", start, end)
                end = upto
            same(f"leaf file {number}", "length", self.lengths.get(number), end)
        for number, digest in self.packed.items() if self.is_full else ():
            plain = sha256()
            for at in range(0, self.lengths.get(number, 0), _CHUNK_BYTES):
                n_bytes = min(_CHUNK_BYTES, self.lengths[number] - at)
                plain.update(read_leaves(self.folder, LeafPlace(number, at), n_bytes))
            same(f"leaf file {number}", "digest", digest, plain.digest())


def check_vouchers(connection: Connection, folder: LedgerFolder, books: Books) -> None:
    """Check every voucher, its filings and leaves."""
    places = _Places(connection, folder, is_full=books.is_full)
    books.report.pruned_files = sorted(places.pruned)
    books.disputed = set(connection.execute(select(dispute.c.voucher_id)).scalars())
    n_all = connection.execute(select(func.count()).select_from(voucher)).scalar_one()
    for at, row in enumerate(_by_id(connection)):
        books.tell("vouchers and leaves", at / n_all)
        filed = _checked(row)
        prices = books.prices.get(filed.voucher.price_table_hash)
        if prices is None:
            raise DifferenceFound(f"{filed.name}: its price table is missing")
        same(filed.name, "network", filed.voucher.network, books.owner.network)
        books.vouchers[row.id] = Filed(
            id=row.id,
            content_hash=row.content_hash,
            worker=books.shared(filed.voucher.worker),
            backbone=books.shared(filed.voucher.backbone),
            tab=filed.voucher.tab,
            amount_uc=filed.voucher.amount_uc,
            is_final=filed.voucher.final,
            posted_us=row.posted_us,
        )
        _check_filings(connection, filed, places, books)
        books.report.vouchers += 1
        books.report.earned_uc += filed.voucher.amount_uc
    places.check()
    books.pruned_us = places.gone_us


def _by_id(connection: Connection) -> Iterator[Row[Any]]:
    """Yield all vouchers, some at a time: their bytes are not kept."""
    last = -1
    while True:
        rows = connection.execute(
            select(voucher)
            .where(voucher.c.id > last)
            .order_by(voucher.c.id)
            .limit(_ROWS_AT_ONCE)
        ).all()
        if not rows:
            return
        yield from rows
        last = rows[-1].id


def _checked(row: Row[Any]) -> _Voucher:
    name = f"voucher {row.content_hash[:4].hex()} of tab {row.tab.hex()}"
    signed = SignedVoucher(
        raw=row.raw,
        worker_signature=row.worker_signature,
        backbone_signature=row.backbone_signature,
    )
    with naming(name):
        claimed = signed.verified()
    for column in _COLUMNS:
        same(name, column, getattr(row, column), getattr(claimed, column))
    same(name, "final", row.final, int(claimed.final))
    same(name, "hash", row.content_hash, voucher_hash(row.raw))
    return _Voucher(row.id, name, claimed, signed, row.posted_us)


def _check_filings(
    connection: Connection, filed: _Voucher, places: _Places, books: Books
) -> None:
    rows = connection.execute(
        select(filing).where(filing.c.voucher_id == filed.id).order_by(filing.c.number)
    ).all()
    if not rows:
        raise DifferenceFound(f"{filed.name}: nothing was filed")
    sums = _Sums(filed.voucher, books.prices[filed.voucher.price_table_hash])
    last_us = 0
    for row in rows:
        name = f"{filed.name}, filing {row.number}"
        _check_covered(name, row, filed.voucher, books)
        sums.add(name, row, places.read(row))
        if row.posted_us < last_us:
            raise DifferenceFound(f"{name}: posted before the one ahead of it")
        last_us = row.posted_us
        _expect_earning(row, filed.voucher, books)
    _check_sums(filed, rows)
    if sums.is_whole:
        with naming(filed.name):
            sums.tally.check(filed.voucher)
        books.report.receipts += filed.voucher.leaves
    elif books.is_full:
        books.report.pruned_receipts += filed.voucher.leaves
    else:
        books.report.unread_receipts += filed.voucher.leaves
    _check_experts(connection, filed, sums)
    if filed.id in books.disputed:
        for raw in split_leaves(b"".join(sums.blocks)):
            books.leaves[filed.id, Leaf.parse(raw).serving] = raw


class _Sums:
    """What the leaves of one voucher add up to, filing by filing."""

    def __init__(self, claimed: Voucher, prices: PriceTable) -> None:
        self.terms, self.prices = TabTerms.of(claimed), prices
        self.tally = Tally(self.terms, prices)
        self.experts = ExpertSums()
        self.blocks: list[bytes] = []
        self.is_whole = True

    def add(self, name: str, row: Row[Any], block: bytes | None) -> None:
        """Check that a filing's own leaves are what it says it added."""
        if block is None:
            self.is_whole = False
            return
        rows, amount_uc = self.tally.rows, self.tally.amount_uc
        self.blocks.append(block)
        with naming(name):
            try:
                self.tally.add(block)
            except OutOfWindow:  # late leaves of long ago: the tree is built anew
                self.tally = Tally(self.terms, self.prices)
                self.tally.add(b"".join(self.blocks))
        self.experts.add(block)
        same(name, "rows", row.rows, self.tally.rows - rows)
        same(name, "amount", row.amount_uc, self.tally.amount_uc - amount_uc)


def _check_covered(name: str, row: Row[Any], claimed: Voucher, books: Books) -> None:
    """Check that a grant for this worker, backbone, model and prices covers it."""
    granted = books.grants.get(row.grant_hash)
    if granted is None:
        raise DifferenceFound(f"{name} has no such grant")
    for part in ("worker", "backbone", "price_table_hash", "manifest_hash"):
        same(
            name, f"the grant's {part}", getattr(granted, part), getattr(claimed, part)
        )
    books.used_uc[row.grant_hash] += row.amount_uc


def _expect_earning(row: Row[Any], claimed: Voucher, books: Books) -> None:
    books.expect(
        TransferCode.EARN,
        _earn_key(claimed, row.number),
        (
            (claimed.backbone, AccountKind.CLIENT_RESERVED),
            (claimed.worker, AccountKind.WORKER_PENDING),
        ),
        row.amount_uc,
        row.content_hash,
        posted_us=row.posted_us,
    )


def _earn_key(claimed: Voucher, number: int) -> bytes:
    numbers = claimed.price_epoch.to_bytes(4, "big") + number.to_bytes(4, "big")
    return claimed.worker + claimed.backbone + claimed.tab + numbers


def _check_sums(filed: _Voucher, rows: Sequence[Row[Any]]) -> None:
    """Check that the filings add up to the voucher, and that it is the last of them."""
    name, claimed, last = filed.name, filed.voucher, rows[-1]
    same(name, "filings' leaves", sum(row.leaves for row in rows), claimed.leaves)
    same(name, "filings' rows", sum(row.rows for row in rows), claimed.rows)
    same(name, "filings' sum", sum(row.amount_uc for row in rows), claimed.amount_uc)
    same(name, "last number", last.number, claimed.number)
    same(name, "last filing", last.content_hash, voucher_hash(filed.signed.raw))
    same(name, "last grant", last.grant_hash, claimed.grant_hash)
    same(name, "issued", last.issued_us, claimed.issued_us)
    same(name, "posted", filed.posted_us, last.posted_us)


def _check_experts(connection: Connection, filed: _Voucher, sums: _Sums) -> None:
    """Check a closed voucher's sums by expert, which outlive its leaves."""
    rows = connection.execute(
        select(voucher_expert).where(voucher_expert.c.voucher_id == filed.id)
    ).all()
    is_closed = connection.execute(
        select(closing.c.voucher_id).where(closing.c.voucher_id == filed.id)
    ).first()
    is_due = is_closed is not None and filed.voucher.leaves > 0
    same(filed.name, "sums by expert", bool(rows), is_due)
    if not rows:
        return
    stored = {
        (row.layer, row.expert): (row.servings, row.rows, row.amount_uc) for row in rows
    }
    claimed = filed.voucher
    totals = [sum(column) for column in zip(*stored.values(), strict=True)]
    wanted = [claimed.leaves, claimed.rows, claimed.amount_uc]
    same(filed.name, "sums over experts", totals, wanted)
    if not sums.is_whole:
        return
    derived = {
        (each.layer, each.expert): (each.servings, each.rows, each.amount_uc)
        for each in sums.experts.table(sums.prices)
    }
    for expert in sorted(stored.keys() | derived.keys()):
        name = f"{filed.name}, expert {expert[0]}/{expert[1]}"
        found = stored.get(expert)
        same(name, "servings, rows, sum", found, derived.get(expert))
