"""The desk's drawer of grants and of the price tables they name.

Contract: as `ledger.closings`: what is committed plus what this group decided, writes
collected in the group's `Rows`, no rules of value. Only the writer's thread touches
this.
"""

from collections import OrderedDict
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, select

from ledger.claims import IssuedGrant
from ledger.grant import Grant
from ledger.prices import PriceTable
from ledger.rows import Rows
from ledger.schema import grant, price_table

__all__ = ["GrantState", "Grants"]

_MAX_CACHED = 1024
_MAX_EXPIRED = 64  # released in one go


@dataclass(slots=True, kw_only=True)
class GrantState:
    """A grant and how much of it is used."""

    grant: Grant
    hash: bytes
    issued: IssuedGrant
    used_uc: int
    is_open: bool


class Grants:
    """Grants and price tables, as the one writer sees them."""

    def __init__(self, connection: Connection, rows: Rows) -> None:
        """Start on what is committed."""
        self._connection = connection
        self._rows = rows
        self._prices: OrderedDict[bytes, PriceTable] = OrderedDict()
        self._grants: OrderedDict[bytes, GrantState] = OrderedDict()
        self._serials: dict[tuple[bytes, bytes], GrantState] = {}  # of this group

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

    def add_prices(
        self, table: PriceTable, raw: bytes, signature: bytes, now_us: int
    ) -> bytes:
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
                "seen_us": now_us,
            }
        return content_hash

    def find(self, content_hash: bytes) -> GrantState | None:
        """Return a grant by its hash."""
        found = self._grants.get(content_hash)
        return found or self._read(grant.c.hash == content_hash)

    def by_serial(self, backbone: bytes, serial: bytes) -> GrantState | None:
        """Return a backbone's grant by its serial."""
        found = self._serials.get((backbone, serial))
        return found or self._read(
            (grant.c.backbone == backbone) & (grant.c.serial == serial)
        )

    def expired(self, before_us: int) -> list[GrantState]:
        """Return some open grants that expired before an instant, oldest first."""
        hashes = self._connection.execute(
            select(grant.c.hash)
            .where(grant.c.state == "open", grant.c.expiry_us < before_us)
            .order_by(grant.c.expiry_us)
            .limit(_MAX_EXPIRED)
        ).scalars()
        states = [self.find(content_hash) for content_hash in hashes.all()]
        return [state for state in states if state is not None and state.is_open]

    def add(self, issued: IssuedGrant, issued_grant: Grant, now_us: int) -> GrantState:
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
            "posted_us": now_us,
        }
        return state

    def change(self, state: GrantState, used_uc: int, *, is_open: bool) -> None:
        """Note how much of a grant is used, and whether it is open."""
        state.used_uc, state.is_open = used_uc, is_open
        self._rows.changed_grants[state.hash] = {
            "grant_hash": state.hash,
            "new_used_uc": used_uc,
            "new_state": "open" if is_open else "released",
        }

    def written(self) -> None:
        """Forget what only this group knew: the database has it now."""
        self._serials = {}

    def committed(self) -> None:
        """Keep the caches small between groups."""
        self.written()
        for cache in (self._prices, self._grants):
            while len(cache) > _MAX_CACHED:
                cache.popitem(last=False)

    def _read(self, condition: ColumnElement[bool]) -> GrantState | None:
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
