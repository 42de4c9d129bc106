"""Beacons and audits as they lie in the ledger, and what they say of whom. Read-only.

Contract: passes of a worker are its audits that passed, before an instant and since it
was last convicted; what happens at the instant itself does not count yet, so that a
draw can be derived again. Convictions are counted by voucher. A backbone's record is
that of its last audits in which it was asked.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, RowMapping, Select, and_, func, select

from ledger.beacon import TRUSTED_PASSES, beacon_value
from ledger.beacon_words import AuditState, Word, parse_words
from ledger.errors import NotFound
from ledger.leaf import Leaf
from ledger.schema import filing, voucher
from ledger.schema_beacon import audit, beacon
from ledger.voucher import Voucher

__all__ = [
    "LATE_US",
    "Audited",
    "LastBeacon",
    "OpenAudit",
    "OpeningRecord",
    "audit_by_id",
    "audits_where",
    "convictions_of",
    "failed_of_voucher",
    "failed_since",
    "last_beacon",
    "open_audits",
    "opened_rows_of",
    "opening_record",
    "passes_of",
]

LATE_US = 20_000_000  # what waited longer may be of rows that are long gone
_RECENT = 100  # audits that make a backbone's record
_MAX_LISTED = 10_000


@dataclass(frozen=True, slots=True)
class LastBeacon:
    """What the next beacon follows."""

    number: int
    value: bytes  # [32]
    upto_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """One audit but for the rows."""

    id: int
    voucher_hash: bytes  # [32] of the filed voucher
    voucher_id: int
    leaf: Leaf
    worker: bytes  # [32]
    backbone: bytes  # [32]
    posted_us: int
    state: AuditState
    words: tuple[Word, ...]
    is_reversed: bool
    detail: str
    decided_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAudit:
    """One audit that is to be asked about."""

    id: int
    voucher_hash: bytes  # [32]
    leaf: Leaf
    worker: bytes  # [32]
    backbone: bytes  # [32]
    manifest_hash: bytes  # [32]
    profile: int
    posted_us: int
    is_late: bool  # it came long after it was issued, or after the filing before it


@dataclass(frozen=True, slots=True)
class OpeningRecord:
    """How often a backbone showed the rows that it was asked for, of late."""

    n_unopened: int
    n_asked: int


def last_beacon(connection: Connection) -> LastBeacon | None:
    """Return the newest beacon."""
    row = connection.execute(
        select(beacon).order_by(beacon.c.number.desc()).limit(1)
    ).one_or_none()
    if row is None:
        return None
    return LastBeacon(row.number, beacon_value(row.signature), row.upto_us)


def passes_of(connection: Connection, worker: bytes, before_us: int) -> int:
    """Return a worker's passed audits, TRUSTED_PASSES at most."""
    of_worker = (audit.c.worker == worker) & (audit.c.decided_us < before_us)
    failed_us = connection.execute(
        select(func.max(audit.c.decided_us)).where(
            of_worker, audit.c.state == AuditState.FAILED.value
        )
    ).scalar_one()
    passed = (
        select(audit.c.id)
        .where(of_worker, audit.c.state == AuditState.PASSED.value)
        .where(audit.c.decided_us > (failed_us or 0))
        .limit(TRUSTED_PASSES)
        .subquery()
    )
    return int(
        connection.execute(select(func.count()).select_from(passed)).scalar_one()
    )


def convictions_of(connection: Connection, worker: bytes) -> int:
    """Return in how many vouchers a worker was convicted."""
    vouchers = select(func.count(audit.c.voucher_id.distinct())).where(
        audit.c.worker == worker, audit.c.state == AuditState.FAILED.value
    )
    return int(connection.execute(vouchers).scalar_one())


def opening_record(connection: Connection, backbone: bytes) -> OpeningRecord:
    """Return how a backbone has answered of late."""
    asked = ("passed", "failed", "unopened", "unjudged")
    states = connection.execute(
        select(audit.c.state)
        .where(audit.c.backbone == backbone, audit.c.state.in_(asked))
        .order_by(audit.c.id.desc())
        .limit(_RECENT)
    ).scalars()
    found = list(states)
    return OpeningRecord(found.count(AuditState.UNOPENED.value), len(found))


def open_audits(connection: Connection, *, from_id: int = 0) -> list[OpenAudit]:
    """Return the audits that are not decided, the oldest first."""
    filed_us = filing.c.posted_us.label("filed_us")
    before = filing.alias()
    before_us = (
        select(func.max(before.c.posted_us))
        .where(before.c.voucher_id == filing.c.voucher_id)
        .where(before.c.number < filing.c.number)
        .scalar_subquery()
        .label("before_us")
    )
    statement = (
        select(*_BUT_ROWS, voucher.c.raw, filing.c.issued_us, filed_us, before_us)
        .join(voucher, voucher.c.id == audit.c.voucher_id)
        .join(filing, filing.c.content_hash == audit.c.content_hash)
        .where(audit.c.state == AuditState.OPEN.value, audit.c.id >= from_id)
        .order_by(audit.c.id)
        .limit(_MAX_LISTED)
    )
    return [_open_audit(row) for row in connection.execute(statement).mappings()]


def audits_where(
    connection: Connection,
    *,
    worker: bytes | None = None,
    backbone: bytes | None = None,
    state: AuditState | None = None,
    limit: int = _MAX_LISTED,
) -> list[Audited]:
    """Return audits, the newest first."""
    statement = select(*_BUT_ROWS).order_by(audit.c.id.desc()).limit(limit)
    for column, wanted in (
        (audit.c.worker, worker),
        (audit.c.backbone, backbone),
        (audit.c.state, None if state is None else state.value),
    ):
        if wanted is not None:
            statement = statement.where(column == wanted)
    return _audited(connection, statement)


def audit_by_id(connection: Connection, number: int) -> Audited:
    """Return one audit.

    Raises:
        NotFound: there is none of this number.
    """
    found = _audited(connection, select(*_BUT_ROWS).where(audit.c.id == number))
    if not found:
        raise NotFound(f"there is no audit {number}: see p2pmoe ledger audit list")
    return found[0]


def failed_since(connection: Connection, since_us: int, limit: int) -> list[Audited]:
    """Return convictions since an instant, the newest first."""
    is_failed = and_(
        audit.c.state == AuditState.FAILED.value, audit.c.decided_us >= since_us
    )
    statement = select(*_BUT_ROWS).where(is_failed).order_by(audit.c.id.desc())
    return _audited(connection, statement.limit(limit))


def failed_of_voucher(connection: Connection, voucher_id: int) -> list[Audited]:
    """Return the convictions in one voucher, the oldest first."""
    is_failed = and_(
        audit.c.state == AuditState.FAILED.value, audit.c.voucher_id == voucher_id
    )
    statement = select(*_BUT_ROWS).where(is_failed).order_by(audit.c.id)
    return _audited(connection, statement)


def opened_rows_of(connection: Connection, number: int) -> bytes:
    """Return the rows that a conviction rests on.

    Raises:
        NotFound: there is no such audit, or no rows are kept of it.
    """
    raw = connection.execute(
        select(audit.c.opened).where(audit.c.id == number)
    ).scalar_one_or_none()
    if raw is None:
        raise NotFound(
            f"no rows are kept of audit {number}: only failed ones have them, see "
            "p2pmoe ledger audit list --state failed"
        )
    return bytes(raw)


_BUT_ROWS = [column for column in audit.c if column.name != "opened"]


def _audited(
    connection: Connection, statement: Select[tuple[object, ...]]
) -> list[Audited]:
    return [
        Audited(
            id=row["id"],
            voucher_hash=row["content_hash"],
            voucher_id=row["voucher_id"],
            leaf=Leaf.parse(row["leaf"]),
            worker=row["worker"],
            backbone=row["backbone"],
            posted_us=row["posted_us"],
            state=AuditState(row["state"]),
            words=parse_words(row["words"]),
            is_reversed=bool(row["is_reversed"]),
            detail=row["detail"],
            decided_us=row["decided_us"],
        )
        for row in connection.execute(statement).mappings()
    ]


def _open_audit(row: RowMapping) -> OpenAudit:
    signed = Voucher.parse(row["raw"])
    before_us = row["issued_us"] if row["before_us"] is None else row["before_us"]
    return OpenAudit(
        id=row["id"],
        voucher_hash=row["content_hash"],
        leaf=Leaf.parse(row["leaf"]),
        worker=row["worker"],
        backbone=row["backbone"],
        manifest_hash=signed.manifest_hash,
        profile=signed.profile,
        posted_us=row["posted_us"],
        is_late=row["filed_us"] - min(row["issued_us"], before_us) > LATE_US,
    )
