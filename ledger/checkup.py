"""Look a ledger over: is it sound, is there room, does anything wait too long.

Contract: read-only, beside a running ledger, quick: nothing is re-derived from leaves
and signatures (that is `ledger.audit`). Each check is one `Finding`: ok, a warning (it
works, and somebody should look), or a fault. A check that cannot be made is a fault of
its own and never ends the others. Full checks read every row, tile and leaf file.
"""

from collections.abc import Callable, Iterator

from sqlalchemy import Column, ColumnElement, Connection, func, select
from sqlalchemy.exc import DBAPIError

from ledger import database_postgres, database_sqlite
from ledger.amounts import format_credits
from ledger.beacon_report import audit_records
from ledger.beacon_rows import opening_record
from ledger.beacon_verdicts import halvings_of
from ledger.checkup_files import Finding, Severity, check_files
from ledger.copying import table_digest
from ledger.database import Reader, highest, store_error
from ledger.database_triggers import trigger_problem
from ledger.errors import LedgerError
from ledger.keys import short
from ledger.schema import METADATA, SCHEMA_VERSION, account, grant, transfer
from ledger.schema_closing import closing, dispute, one_sided, payout
from ledger.schema_standby import price_epoch
from ledger.standby_sums import pot_uc

__all__ = ["check_ledger"]

_HOUR_US = 3_600_000_000
_SLACK_US = _HOUR_US  # what is due is done every few seconds: an hour is no chance
_RELEASE_US = 48 * _HOUR_US  # a grant's rest goes back so long after its expiry
_MAX_WAL_BYTES = 128 << 20
_MAX_TRANSACTION_S = 3600
_SAFE = {"fsync": "on", "full_page_writes": "on"}
Check = Callable[[Connection], Iterator[Finding]]


def check_ledger(reader: Reader, now_us: int, *, is_full: bool) -> list[Finding]:
    """Run every check, each on one moment of the ledger.

    Args:
        reader: the ledger.
        now_us: the time, microseconds since 1970 UTC.
        is_full: also what reads everything.
    """
    checks: tuple[tuple[str, Check], ...] = (
        ("database", lambda open_: _check_database(reader, open_, is_full=is_full)),
        ("balances", _check_balances),
        ("waiting", lambda open_: _check_waiting(open_, now_us)),
        ("standby pot", _check_pot),
        ("audits", _check_audits),
        ("clock", lambda open_: _check_clock(open_, now_us)),
        ("files", lambda open_: check_files(reader, open_, is_full=is_full)),
    )
    findings: list[Finding] = []
    for name, check in checks:
        try:
            with reader.session() as connection:
                findings.extend(check(connection))
        except LedgerError as exc:
            findings.append(Finding(name, Severity.FAULT, str(exc)))
        except (OSError, DBAPIError) as exc:
            error = store_error(exc, reader.folder)
            findings.append(Finding(name, Severity.FAULT, str(error)))
    return findings


def _check_database(
    reader: Reader, connection: Connection, *, is_full: bool
) -> Iterator[Finding]:
    is_sqlite = connection.dialect.name == "sqlite"
    engine = database_sqlite if is_sqlite else database_postgres
    facts = engine.engine_facts(connection)
    told = ", ".join(f"{name} {value}" for name, value in facts.items())
    unsafe = [n for n, safe in _SAFE.items() if facts.get(n, safe) != safe]
    severity = Severity.WARNING if unsafe else Severity.OK
    yield Finding("database", severity, f"{told}, schema {SCHEMA_VERSION}")
    if is_sqlite:
        wal = database_sqlite.wal_bytes(reader.folder.database)
        is_long = wal > _MAX_WAL_BYTES  # something reads for a long time
        severity = Severity.WARNING if is_long else Severity.OK
        yield Finding("write-ahead log", severity, f"{wal} bytes")
        problem = database_sqlite.integrity_problem(connection, is_full=is_full)
    else:
        oldest_s = int(facts["oldest_transaction_s"])
        is_old = oldest_s > _MAX_TRANSACTION_S
        severity = Severity.WARNING if is_old else Severity.OK
        yield Finding("transactions", severity, f"the oldest is open {oldest_s} s")
        problem = None
    problem = problem or trigger_problem(connection)
    if problem:
        yield Finding("integrity", Severity.FAULT, problem)
    elif is_full:
        n_rows = sum(table_digest(connection, t).rows for t in METADATA.sorted_tables)
        yield Finding("integrity", Severity.OK, f"{n_rows} rows read")
    elif is_sqlite:
        yield Finding("integrity", Severity.OK, "pages, references, triggers")
    else:
        yield Finding("integrity", Severity.OK, "triggers")


def _check_balances(connection: Connection) -> Iterator[Finding]:
    rows = connection.execute(select(account)).all()
    debits = sum(row.debits_uc for row in rows)
    credits_ = sum(row.credits_uc for row in rows)
    if debits != credits_:
        detail = f"debits {debits} and credits {credits_} differ"
        yield Finding("balances", Severity.FAULT, detail)
        return
    yield Finding("balances", Severity.OK, f"{len(rows)} accounts, sums {debits} uc")


def _check_waiting(connection: Connection, now_us: int) -> Iterator[Finding]:
    """Name what should be over by now."""
    late_us = now_us - _SLACK_US
    late: tuple[tuple[str, Column[int], ColumnElement[bool]], ...] = (
        (
            "grants",
            grant.c.expiry_us,
            (grant.c.state == "open") & (grant.c.expiry_us < late_us - _RELEASE_US),
        ),
        (
            "releases",
            closing.c.release_due_us,
            (closing.c.state == "closed") & (closing.c.release_due_us < late_us),
        ),
        (
            "holdbacks",
            closing.c.holdback_due_us,
            (closing.c.holdback == "held")
            & (closing.c.state == "released")
            & (closing.c.holdback_due_us < late_us),
        ),
        (
            "disputes",
            dispute.c.answer_due_us,
            (dispute.c.state == "open") & (dispute.c.answer_due_us < late_us),
        ),
    )
    for name, due, is_late in late:
        count, oldest_us = connection.execute(
            select(func.count(), func.min(due)).where(is_late)
        ).one()
        detail = "nothing is overdue"
        if count:
            detail = f"{count} overdue, the oldest {_age(now_us, oldest_us)}: does the "
            detail += "ledger run?"
        yield Finding(name, Severity.WARNING if count else Severity.OK, detail)
    yield from _check_open_ends(connection, now_us)


def _check_open_ends(connection: Connection, now_us: int) -> Iterator[Finding]:
    """Name what waits for a person, or for the other side."""
    n_answered = _count(connection, dispute.c.state == "answered")
    if n_answered:
        detail = f"{n_answered} answered and not judged"
        yield Finding("disputes", Severity.WARNING, detail)
    unknown = payout.c.state.in_(("sending", "unresolved"))
    n_unknown = _count(connection, unknown)
    severity = Severity.WARNING if n_unknown else Severity.OK
    yield Finding("payouts", severity, f"{n_unknown} of unknown outcome")
    is_held = one_sided.c.state == "held"
    oldest_us = connection.execute(
        select(func.min(one_sided.c.seen_us)).where(is_held)
    ).scalar_one()
    detail = f"{_count(connection, is_held)} wait for their worker"
    if oldest_us is not None:
        detail += f", the oldest {_age(now_us, oldest_us)}"
    yield Finding("one-sided finals", Severity.OK, detail)


def _check_pot(connection: Connection) -> Iterator[Finding]:
    """Say whether the pot of standby pay holds another epoch like the last one."""
    last = connection.execute(
        select(price_epoch.c.pot_uc).order_by(price_epoch.c.paper.desc()).limit(1)
    ).scalar_one_or_none()
    held_uc = pot_uc(connection)
    if last is None and not held_uc:
        return
    is_low = last is not None and held_uc < last
    detail = f"{format_credits(held_uc)} credits"
    if is_low:
        detail += ", less than an epoch may give: p2pmoe ledger standby fund"
    yield Finding("standby pot", Severity.WARNING if is_low else Severity.OK, detail)


def _check_audits(connection: Connection) -> Iterator[Finding]:
    """Name the backbones that get smaller grants, as they do not show rows."""
    for each in audit_records(connection, by_backbone=True):
        record = opening_record(connection, each.peer)
        halvings = halvings_of(record)
        if halvings:
            yield Finding(
                "audits",
                Severity.WARNING,
                f"backbone {short(each.peer)} did not show rows in {record.n_unopened} "
                f"of its last {record.n_asked} audits: its new grants reach 1/"
                f"{1 << halvings} of what it asks for",
            )


def _check_clock(connection: Connection, now_us: int) -> Iterator[Finding]:
    newest_us = highest(connection, transfer.c.posted_us)
    if newest_us > now_us + _SLACK_US:
        ahead = _age(newest_us, now_us)
        detail = f"the newest transfer is {ahead} ahead of this machine's clock"
        yield Finding("clock", Severity.WARNING, detail)
        return
    yield Finding("clock", Severity.OK, "no transfer is ahead of it")


def _count(connection: Connection, condition: ColumnElement[bool]) -> int:
    statement = select(func.count()).where(condition)
    count: int = connection.execute(statement).scalar_one()
    return count


def _age(now_us: int, then_us: int) -> str:
    hours, minutes = divmod((now_us - then_us) // 60_000_000, 60)
    return f"{hours} h {minutes} min"
