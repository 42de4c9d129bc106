"""The desk's drawer of finals that only the backbone signed: held, not paid.

Contract: as `ledger.closings`. After a restart a backbone can close an old tab alone:
its final voucher is held with its new leaves until the worker countersigns the same
bytes (`signed`), or the key closes by another voucher, or the grant it names is
released (`expired`). One for each key, ever; the leaves are dropped with the state
`held`. Nothing is paid by this table: settling is a filing like any other.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, func, select

from ledger.claims import Claim
from ledger.rows import Rows
from ledger.schema_closing import one_sided
from ledger.voucher import Voucher, VoucherKey

__all__ = ["MAX_HELD_LEAVES", "HeldFinal", "OneSided"]

MAX_HELD_LEAVES = 4096  # the greatest float: no more can be without a voucher
_MAX_KEPT = 16_384
_MAX_OF_BACKBONE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFinal:
    """A final voucher that waits, or waited, for its worker."""

    content_hash: bytes  # [32]
    raw: bytes
    backbone_signature: bytes  # [64]
    leaves: bytes  # packed; empty once it is held no more
    state: str  # held, signed or expired


class OneSided:
    """Finals signed by the backbone alone, as the one writer sees them."""

    def __init__(self, connection: Connection, rows: Rows) -> None:
        """Start on what is committed."""
        self._connection = connection
        self._rows = rows
        self._group: dict[VoucherKey, HeldFinal] = {}
        self._n_held = self._count(one_sided.c.state == "held")

    def find(self, key: VoucherKey) -> HeldFinal | None:
        """Return the one-sided final of a key, whatever its state."""
        if key in self._group:
            return self._group[key]
        found = self._read(
            (one_sided.c.worker == key.worker)
            & (one_sided.c.backbone == key.backbone)
            & (one_sided.c.tab == key.tab)
            & (one_sided.c.price_epoch == key.price_epoch)
        )
        return found[0] if found else None

    def has_room(self, backbone: bytes) -> bool:
        """Say whether one more may be held of this backbone."""
        if self._n_held >= _MAX_KEPT:
            return False
        of_backbone = self._count(
            one_sided.c.state == "held", one_sided.c.backbone == backbone
        )
        return of_backbone + len(self._rows.new_finals) < _MAX_OF_BACKBONE

    def hold(self, claim: Claim, leaves: bytes, now_us: int) -> None:
        """Keep a final and the leaves that it adds."""
        claimed = claim.voucher
        final = HeldFinal(
            content_hash=claim.content_hash,
            raw=claim.signed.raw,
            backbone_signature=claim.signed.backbone_signature,
            leaves=leaves,
            state="held",
        )
        self._group[claimed.key] = final
        self._n_held += 1
        self._rows.new_finals[final.content_hash] = {
            "content_hash": final.content_hash,
            "worker": claimed.worker,
            "backbone": claimed.backbone,
            "tab": claimed.tab,
            "price_epoch": claimed.price_epoch,
            "number": claimed.number,
            "amount_uc": claimed.amount_uc,
            "raw": final.raw,
            "backbone_signature": final.backbone_signature,
            "leaves": leaves,
            "filed_by": claim.filed_by,
            "seen_us": now_us,
            "state": "held",
        }

    def closed(self, key: VoucherKey, content_hash: bytes) -> None:
        """Note that a key closed by a voucher: this final, or another in its place."""
        final = self.find(key) if self._n_held else None
        if final is not None and final.state == "held":
            is_same = final.content_hash == content_hash
            self._end(key, final, "signed" if is_same else "expired")

    def expire(self, worker: bytes, backbone: bytes, grant_hash: bytes) -> None:
        """Give up what was claimed under a grant that is released."""
        of_pair = (one_sided.c.worker == worker) & (one_sided.c.backbone == backbone)
        for final in self._read(of_pair & (one_sided.c.state == "held")):
            claimed = Voucher.parse(final.raw)
            newest = self._group.get(claimed.key, final)
            if newest.state == "held" and claimed.grant_hash == grant_hash:
                self._end(claimed.key, newest, "expired")

    def written(self) -> None:
        """Forget what only this group knew: the database has it now."""
        self._group = {}

    def _end(self, key: VoucherKey, final: HeldFinal, state: str) -> None:
        self._group[key] = HeldFinal(
            content_hash=final.content_hash,
            raw=final.raw,
            backbone_signature=final.backbone_signature,
            leaves=b"",
            state=state,
        )
        self._n_held -= 1
        self._rows.end_final(final.content_hash, state)

    def _read(self, condition: ColumnElement[bool]) -> list[HeldFinal]:
        statement = select(
            one_sided.c.content_hash,
            one_sided.c.raw,
            one_sided.c.backbone_signature,
            one_sided.c.leaves,
            one_sided.c.state,
        ).where(condition)
        return [
            HeldFinal(
                content_hash=row.content_hash,
                raw=row.raw,
                backbone_signature=row.backbone_signature,
                leaves=row.leaves,
                state=row.state,
            )
            for row in self._connection.execute(statement)
        ]

    def _count(self, *conditions: ColumnElement[bool]) -> int:
        statement = select(func.count()).select_from(one_sided).where(*conditions)
        count: int = self._connection.execute(statement).scalar_one()
        return count
