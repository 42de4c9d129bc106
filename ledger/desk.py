"""The writer's desk: what one group of writes reads, and what it decides to write.

Contract: only the writer's thread touches a desk. Reads go through caches that hold
what is committed plus what this group has decided; `flush` syncs the leaf files, then
writes the collected rows in the open transaction, and `committed` is called after. Upon
any fault of disk or database the desk is thrown away and a new one opened from what is
committed. It knows no rules of value: those are in `ledger.settlement`.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    func,
    insert,
    literal,
    select,
    update,
)

from ledger.accounts import Book
from ledger.claims import Claim, IssuedGrant, Refusal
from ledger.database import LedgerFolder, LedgerIdentity, highest
from ledger.grant import Grant
from ledger.leaf import LEAF_BYTES
from ledger.leaf_files import LeafFiles, LeafPlace, read_leaves
from ledger.prices import PriceTable
from ledger.refusals import Refusals
from ledger.rows import Rows, filing_row, voucher_row
from ledger.schema import (
    filing,
    grant,
    leaf_file,
    price_table,
    rejected,
    transfer,
    voucher,
)
from ledger.tally import TabTerms, Tally
from ledger.voucher import Voucher, VoucherKey

__all__ = ["Desk", "GrantState", "VoucherState"]

_MAX_CACHED = 1024
_MAX_ASKED = 500  # hashes in one query
_TALLY_WINDOW = 512  # leaves back that a late one may belong before a rebuild


@dataclass(slots=True, kw_only=True)
class GrantState:
    """A grant and how much of it is used."""

    grant: Grant
    hash: bytes
    issued: IssuedGrant
    used_uc: int
    is_open: bool


@dataclass(slots=True, kw_only=True)
class VoucherState:
    """The current voucher of a key and the tally of its leaves."""

    id: int
    voucher: Voucher
    tally: Tally


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
        self._folder = folder
        rows = connection.execute(select(leaf_file)).all()
        self._lengths = {row.number: row.length_bytes for row in rows}
        self._files = LeafFiles(folder.leaves, self._lengths)
        self.now_us = max(
            highest(connection, column)
            for column in (
                transfer.c.posted_us,
                filing.c.posted_us,
                rejected.c.seen_us,
            )
        )
        self._next_voucher = 1 + highest(connection, voucher.c.id)
        self._rows = Rows()
        self._refusals = Refusals(connection, self._rows)
        self._prices: OrderedDict[bytes, PriceTable] = OrderedDict()
        self._grants: OrderedDict[bytes, GrantState] = OrderedDict()
        self._vouchers: OrderedDict[VoucherKey, VoucherState] = OrderedDict()
        # What this group decided, for reads within it.
        self._serials: dict[tuple[bytes, bytes], GrantState] = {}
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

    # -- prices and grants ----------------------------------------------------

    def prices(self, content_hash: bytes) -> PriceTable | None:
        """Return a known price table."""
        found = self._prices.get(content_hash)
        if found is None:
            raw = self._connection.execute(
                select(price_table.c.raw).where(price_table.c.hash == content_hash)
            ).scalar_one_or_none()
            if raw is None:
                return None
            found = self._prices[content_hash] = PriceTable.parse(raw)
        return found

    def add_prices(self, table: PriceTable, raw: bytes, signature: bytes) -> bytes:
        """Keep a price table whose signature was checked; return its hash."""
        content_hash = table.content_hash
        if self.prices(content_hash) is None:
            self._prices[content_hash] = table
            self._rows.prices[content_hash] = {
                "hash": content_hash,
                "epoch": table.epoch,
                "manifest_hash": table.manifest_hash,
                "raw": raw,
                "signature": signature,
                "seen_us": self.now_us,
            }
        return content_hash

    def grant(self, content_hash: bytes) -> GrantState | None:
        """Return a grant by its hash."""
        found = self._grants.get(content_hash)
        return found or self._read_grant(grant.c.hash == content_hash)

    def grant_by_serial(self, backbone: bytes, serial: bytes) -> GrantState | None:
        """Return a backbone's grant by its serial."""
        found = self._serials.get((backbone, serial))
        return found or self._read_grant(
            (grant.c.backbone == backbone) & (grant.c.serial == serial)
        )

    def expired_grants(self, before_us: int) -> list[GrantState]:
        """Return open grants that expired before an instant."""
        hashes = self._connection.execute(
            select(grant.c.hash).where(
                grant.c.state == "open", grant.c.expiry_us < before_us
            )
        ).scalars()
        states = [self.grant(content_hash) for content_hash in hashes.all()]
        return [state for state in states if state is not None and state.is_open]

    def add_grant(self, issued: IssuedGrant, issued_grant: Grant) -> GrantState:
        """Keep a grant that the ledger signed."""
        state = GrantState(
            grant=issued_grant,
            hash=issued_grant.content_hash,
            issued=issued,
            used_uc=0,
            is_open=True,
        )
        self._grants[state.hash] = state
        self._serials[issued_grant.backbone, issued_grant.serial] = state
        self._rows.new_grants[state.hash] = {
            "hash": state.hash,
            "worker": issued_grant.worker,
            "backbone": issued_grant.backbone,
            "serial": issued_grant.serial,
            "price_table_hash": issued_grant.price_table_hash,
            "ceiling_uc": issued_grant.ceiling_uc,
            "used_uc": 0,
            "expiry_us": issued_grant.expiry_us,
            "raw": issued.raw,
            "signature": issued.signature,
            "state": "open",
            "posted_us": self.now_us,
        }
        return state

    def change_grant(self, state: GrantState, used_uc: int, *, is_open: bool) -> None:
        """Note how much of a grant is used, and whether it is open."""
        state.used_uc, state.is_open = used_uc, is_open
        self._rows.changed_grants[state.hash] = {
            "grant_hash": state.hash,
            "new_used_uc": used_uc,
            "new_state": "open" if is_open else "released",
        }

    def pair_leaves(self, worker: bytes, backbone: bytes) -> int:
        """Return how many servings of the pair were countersigned and committed."""
        total: int | None = self._connection.execute(
            select(func.sum(voucher.c.leaves)).where(
                voucher.c.worker == worker, voucher.c.backbone == backbone
            )
        ).scalar_one()
        return total or 0

    # -- vouchers -------------------------------------------------------------

    def voucher(self, key: VoucherKey) -> VoucherState | None:
        """Return the current voucher of a key, with its tally."""
        found = self._vouchers.get(key)
        if found is not None:
            self._vouchers.move_to_end(key)
            return found
        row = self._connection.execute(
            select(voucher.c.id, voucher.c.raw).where(
                voucher.c.worker == key.worker,
                voucher.c.backbone == key.backbone,
                voucher.c.tab == key.tab,
                voucher.c.price_epoch == key.price_epoch,
            )
        ).one_or_none()
        if row is None:
            return None
        current = Voucher.parse(row.raw)
        tally = self.new_tally(current)
        tally.add(self.all_leaves(row.id))
        found = VoucherState(id=row.id, voucher=current, tally=tally)
        self._vouchers[key] = found
        return found

    def new_tally(self, claimed: Voucher) -> Tally:
        """Return an empty tally for a voucher whose price table is known."""
        prices = self.prices(claimed.price_table_hash)
        if prices is None:
            raise LookupError(claimed.price_table_hash.hex())
        return Tally(TabTerms.of(claimed), prices, window=_TALLY_WINDOW)

    def all_leaves(self, voucher_id: int) -> bytes:
        """Return every leaf filed under a voucher's key, this group's included."""
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
        return b"".join(
            read_leaves(self._folder.leaves, LeafPlace(file, at), n * LEAF_BYTES)
            for file, at, n in places
        )

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
    ) -> None:
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
        state = VoucherState(id=voucher_id, voucher=claimed, tally=tally)
        self._vouchers[claimed.key] = state
        self._filed[voucher_id, claimed.number] = place, len(leaves) // LEAF_BYTES
        self._rows.filings[claim.content_hash] = filing_row(
            claim, current.voucher if current else None, place, self.now_us
        ) | {"voucher_id": voucher_id}
        self._rows.set_voucher(
            voucher_id, voucher_row(claim, self.now_us), is_new=current is None
        )

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
        self._serials, self._filed = {}, {}
        self._unfiled.clear()

    def committed(self) -> None:
        """Take the group as done.

        Raises:
            OSError: the next leaf file cannot be made; throw the desk away.
        """
        self._serials, self._filed, self._file = {}, {}, None
        self._unfiled.clear()
        for cache in (self._prices, self._grants, self._vouchers):
            while len(cache) > _MAX_CACHED:
                cache.popitem(last=False)
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

    def _read_grant(self, condition: ColumnElement[bool]) -> GrantState | None:
        row = self._connection.execute(select(grant).where(condition)).one_or_none()
        if row is None:
            return None
        if row.hash in self._grants:
            return self._grants[row.hash]
        state = GrantState(
            grant=Grant.parse(row.raw),
            hash=row.hash,
            issued=IssuedGrant(raw=row.raw, signature=row.signature),
            used_uc=row.used_uc,
            is_open=row.state == "open",
        )
        self._grants[state.hash] = state
        return state

    def _exists(self, condition: ColumnElement[bool]) -> bool:
        statement = select(literal(1)).where(condition).limit(1)
        return self._connection.execute(statement).scalar_one_or_none() is not None
