"""The writer's desk: what one group of writes reads, and what it decides to write.

Contract: only the writer's thread touches a desk. Reads go through caches that hold
what is committed plus what this group has decided; `flush` syncs the leaf files, then
writes the collected rows in the open transaction, and `committed` is called after. Upon
any fault of disk or database the desk is thrown away and a new one opened from what is
committed. Grants, closings and one-sided finals have drawers of their own. It knows no
rules of value: those are in `ledger.settlement`, `ledger.filings`, `ledger.closing`.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    func,
    insert,
    literal,
    select,
    update,
)

from ledger.accounts import Book
from ledger.claims import Claim, Refusal
from ledger.closings import Closings
from ledger.database import LedgerFolder, LedgerIdentity, highest
from ledger.errors import NotFound
from ledger.experts import ExpertSum, ExpertSums
from ledger.grants import Grants
from ledger.latest import latest_us
from ledger.leaf import LEAF_BYTES
from ledger.leaf_files import LeafFiles, LeafPlace, read_leaves
from ledger.one_sided import OneSided
from ledger.prices import PriceTable
from ledger.refusals import Refusals
from ledger.rows import Rows, filing_row, voucher_row
from ledger.schema import filing, leaf_file, voucher
from ledger.schema_closing import closing
from ledger.tally import TabTerms, Tally
from ledger.voucher import SignedVoucher, Voucher, VoucherKey, voucher_hash

__all__ = ["Desk", "StoredVoucher", "VoucherState"]

_MAX_CACHED = 1024
_MAX_ASKED = 500  # hashes in one query
_TALLY_WINDOW = 512  # leaves back that a late one may belong before a rebuild


@dataclass(slots=True, kw_only=True)
class StoredVoucher:
    """The current voucher of a key; its leaves were not looked at."""

    id: int
    voucher: Voucher
    signed: SignedVoucher
    is_closed: bool  # the key takes no more

    @property
    def hash(self) -> bytes:
        """The 32-byte name of the voucher's bytes."""
        return voucher_hash(self.signed.raw)


@dataclass(slots=True, kw_only=True)
class VoucherState(StoredVoucher):
    """The same with what its leaves add up to, in order to take more."""

    tally: Tally
    experts: ExpertSums


class Desk:
    """Reads and collected writes of the ledger's one writer."""

    def __init__(
        self, connection: Connection, folder: LedgerFolder, owner: LedgerIdentity
    ) -> None:
        """Open the desk on what is committed.

        Raises:
            DifferenceFound: a leaf file is shorter than what was committed.
            StoreUnavailable: the leaf files cannot be opened.
        """
        self.owner = owner
        self.book = Book(connection)
        self._connection = connection
        self.folder = folder
        rows = connection.execute(select(leaf_file)).all()
        self._lengths = {row.number: row.length_bytes for row in rows}
        self._files = LeafFiles(folder.leaves, self._lengths)
        self.now_us = latest_us(connection)
        self._next_voucher = 1 + highest(connection, voucher.c.id)
        self._rows = Rows()
        self._refusals = Refusals(connection, self._rows)
        self.grants = Grants(connection, self._rows)
        self.closings = Closings(connection, self._rows)
        self.halves = OneSided(connection, self._rows)
        self._vouchers: OrderedDict[VoucherKey, VoucherState] = OrderedDict()
        # What this group decided, for reads within it.
        self._filed: dict[tuple[int, int], tuple[LeafPlace, int]] = {}
        self._unfiled: set[bytes] = set()  # looked up, and not there
        self._file: int | None = None  # leaf file written to

    @property
    def connection(self) -> Connection:
        """The writer's connection, in its open transaction while a job runs."""
        return self._connection

    def begin(self, now_us: int, content_hashes: Sequence[bytes] = ()) -> None:
        """Start a group: its time, which never goes back, and the vouchers to come."""
        self.now_us = max(self.now_us, now_us)
        statement = select(filing.c.content_hash)
        for start in range(0, len(content_hashes), _MAX_ASKED):
            part = content_hashes[start : start + _MAX_ASKED]
            found = self._connection.execute(
                statement.where(filing.c.content_hash.in_(part))
            ).scalars()
            self._unfiled.update(set(part) - set(found))

    def prices(self, content_hash: bytes) -> PriceTable | None:
        """Return a known price table."""
        return self.grants.prices(content_hash)

    def pair_leaves(self, worker: bytes, backbone: bytes) -> int:
        """Return how many servings of the pair were countersigned and committed."""
        total: int | None = self._connection.execute(
            select(func.sum(voucher.c.leaves)).where(
                voucher.c.worker == worker, voucher.c.backbone == backbone
            )
        ).scalar_one()
        return total or 0

    # -- vouchers -------------------------------------------------------------

    def head(self, key: VoucherKey) -> StoredVoucher | None:
        """Return the current voucher of a key."""
        found = self._vouchers.get(key)
        if found is not None:
            self._vouchers.move_to_end(key)
            return found
        return self._stored(
            _BY_KEY,
            {
                "worker": key.worker,
                "backbone": key.backbone,
                "tab": key.tab,
                "price_epoch": key.price_epoch,
            },
        )

    def with_tally(self, head: StoredVoucher) -> VoucherState:
        """Return a key's current voucher with the tally of its leaves.

        Raises:
            NotFound, DifferenceFound: the leaves are pruned, or not there.
        """
        if isinstance(head, VoucherState):
            return head
        leaves = self.all_leaves(head.id)
        tally = self.new_tally(head.voucher)
        tally.add(leaves)
        found = VoucherState(
            id=head.id,
            voucher=head.voucher,
            signed=head.signed,
            is_closed=head.is_closed,
            tally=tally,
            experts=ExpertSums().add(leaves),
        )
        self._vouchers[head.voucher.key] = found
        return found

    def stored_voucher(self, voucher_id: int) -> StoredVoucher:
        """Return a key's current voucher by the key's number; it is written out.

        Raises:
            NotFound: there is no such key.
        """
        found = self._stored(_BY_ID, {"id": voucher_id})
        if found is None:
            raise NotFound(f"no voucher {voucher_id}")
        return self._vouchers.get(found.voucher.key, found)

    def expert_table(self, current: StoredVoucher) -> list[ExpertSum]:
        """Return what a key's leaves add up to, by expert."""
        prices = self.prices(current.voucher.price_table_hash)
        if prices is None:
            raise LookupError(current.voucher.price_table_hash.hex())
        if isinstance(current, VoucherState):
            return list(current.experts.table(prices))
        sums = ExpertSums()
        for block in self._leaf_blocks(current.id):
            sums.add(block)
        return list(sums.table(prices))

    def new_tally(self, claimed: Voucher) -> Tally:
        """Return an empty tally for a voucher whose price table is known."""
        prices = self.prices(claimed.price_table_hash)
        if prices is None:
            raise LookupError(claimed.price_table_hash.hex())
        return Tally(TabTerms.of(claimed), prices, window=_TALLY_WINDOW)

    def all_leaves(self, voucher_id: int) -> bytes:
        """Return every leaf filed under a voucher's key, this group's included."""
        return b"".join(self._leaf_blocks(voucher_id))

    def has_filing(self, content_hash: bytes) -> bool:
        """Say whether this very voucher was stored."""
        if content_hash in self._rows.filings:
            return True
        if content_hash in self._unfiled:
            return False
        return self._exists(filing.c.content_hash == content_hash)

    def has_number(self, voucher_id: int, number: int) -> bool:
        """Say whether a voucher of this number was stored under the key."""
        return (voucher_id, number) in self._filed or self._exists(
            (filing.c.voucher_id == voucher_id) & (filing.c.number == number)
        )

    def store(
        self, claim: Claim, current: VoucherState | None, tally: Tally, leaves: bytes
    ) -> VoucherState:
        """Make a claim's voucher the current one of its key and keep its new leaves.

        Raises:
            OSError: the leaf file refused; the desk must be thrown away.
        """
        claimed = claim.voucher
        voucher_id = current.id if current else self._next_voucher
        if current is None:
            self._next_voucher += 1
        place = self._files.append(leaves)
        self._file = place.file
        experts = current.experts if current else ExpertSums()
        state = VoucherState(
            id=voucher_id,
            voucher=claimed,
            signed=claim.signed,
            is_closed=False,
            tally=tally,
            experts=experts.add(leaves),
        )
        self._vouchers[claimed.key] = state
        self._unfiled.discard(claim.content_hash)
        self._filed[voucher_id, claimed.number] = place, len(leaves) // LEAF_BYTES
        self._rows.filings[claim.content_hash] = filing_row(
            claim, current.voucher if current else None, place, self.now_us
        ) | {"voucher_id": voucher_id}
        self._rows.set_voucher(
            voucher_id, voucher_row(claim, self.now_us), is_new=current is None
        )
        return state

    def reject(self, refusal: Refusal) -> None:
        """Keep a refused voucher, as received, once, while there is room for it."""
        self._refusals.add(refusal, self.now_us)

    # -- the end of a group ---------------------------------------------------

    def flush(self) -> None:
        """Sync the leaves, then write the rows; the caller commits.

        Raises:
            OSError, DBAPIError: nothing is committed; throw the desk away.
        """
        self._files.sync()
        self.book.flush()
        self._rows.flush(self._connection)
        if self._file is not None:
            self._write_length(self._file, self._files.length_bytes)

    def write_out(self) -> None:
        """Write what was collected so far; the group goes on, and reads it there.

        Raises:
            OSError, DBAPIError: as `flush`.
        """
        self.flush()
        self._filed = {}
        self._unfiled.clear()
        self.grants.written()
        self.closings.written()
        self.halves.written()

    def committed(self) -> None:
        """Take the group as done.

        Raises:
            OSError: the next leaf file cannot be made; throw the desk away.
        """
        self._filed, self._file = {}, None
        self._unfiled.clear()
        self.grants.committed()
        self.closings.written()
        self.halves.written()
        while len(self._vouchers) > _MAX_CACHED:
            self._vouchers.popitem(last=False)
        self._files.commit()

    def close(self) -> None:
        """Close the leaf file."""
        self._files.close()

    def _write_length(self, file: int, length_bytes: int) -> None:
        if file in self._lengths:
            statement = update(leaf_file).where(leaf_file.c.number == file)
            self._connection.execute(statement.values(length_bytes=length_bytes))
        else:
            self._connection.execute(
                insert(leaf_file).values(number=file, length_bytes=length_bytes)
            )
        self._lengths[file] = length_bytes

    def _stored(
        self, statement: Select[Any], values: dict[str, object]
    ) -> StoredVoucher | None:
        row = self._connection.execute(statement, values).one_or_none()
        if row is None:
            return None
        signed = SignedVoucher(
            raw=row.raw,
            worker_signature=row.worker_signature,
            backbone_signature=row.backbone_signature,
        )
        return StoredVoucher(
            id=row.id,
            voucher=Voucher.parse(row.raw),
            signed=signed,
            is_closed=row.log_index is not None or row.id in self._rows.new_closings,
        )

    def _leaf_blocks(self, voucher_id: int) -> Iterator[bytes]:
        self._files.write()
        columns = (filing.c.leaf_file, filing.c.leaf_offset, filing.c.leaves)
        committed = self._connection.execute(
            select(*columns).where(filing.c.voucher_id == voucher_id)
        ).all()
        places = [(row[0], row[1], row[2]) for row in committed]
        places += [
            (place.file, place.offset, n_leaves)
            for (owner, _), (place, n_leaves) in self._filed.items()
            if owner == voucher_id
        ]
        for file, at, n in places:
            place = LeafPlace(file, at)
            yield read_leaves(self.folder.leaves, place, n * LEAF_BYTES)

    def _exists(self, condition: ColumnElement[bool]) -> bool:
        statement = select(literal(1)).where(condition).limit(1)
        return self._connection.execute(statement).scalar_one_or_none() is not None


# Built once: to build one costs more than to run it.
_WITH_CLOSING = select(voucher, closing.c.log_index).outerjoin(
    closing, closing.c.voucher_id == voucher.c.id
)
_BY_ID = _WITH_CLOSING.where(voucher.c.id == bindparam("id"))
_BY_KEY = _WITH_CLOSING.where(
    *(
        voucher.c[name] == bindparam(name)
        for name in ("worker", "backbone", "tab", "price_epoch")
    )
)
