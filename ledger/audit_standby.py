"""Audit: every STANDBY paper is the market's, was its turn, and paid what follows.

Contract: papers are read in the order of their booking; of each the market's signature
is checked and everything beside it derived again: scarcity, holdings, each amount, each
worker's pay. It must have been its turn (its epoch over, not long ago, no other paper
of its model and time), and within the policy that held. A worker is paid if a voucher
of it had been filed by then, and only then. Each pay demands its transfer; that the pot
held it is the transfers' part. A quick audit only counts the rows of scarcity and
holdings: nobody is paid by them. Reads only; raises `DifferenceFound`.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Row, Table, func, select

from ledger.accounts import EXTERNAL_OWNER, AccountKind, TransferCode
from ledger.audit_books import Books, holds, naming, same
from ledger.errors import DifferenceFound
from ledger.schema import filing, voucher
from ledger.schema_standby import (
    holding,
    price_epoch,
    price_row,
    standby_paper,
    standby_pay,
)
from ledger.standby import StandbyPaper, standby_hash, verify_standby

__all__ = ["check_standby"]

_MAX_AGE_US = 7 * 86_400_000_000
_MAX_SKEW_US = 60_000_000
_TABLES = (price_epoch, price_row, holding, standby_pay)


def check_standby(connection: Connection, books: Books) -> None:
    """Check every paper, in order."""
    seqs = connection.execute(
        select(standby_paper.c.seq).order_by(standby_paper.c.seq)
    ).scalars()
    found: Counter[str] = Counter()
    first_us = _first_filings(connection) if connection.execute(_ANY).first() else {}
    last_us = 0
    for n, seq in enumerate(seqs.all(), start=1):
        row = connection.execute(
            select(standby_paper).where(standby_paper.c.seq == seq)
        ).one()
        name = f"standby paper {row.hash[:4].hex()}"
        same(name, "number", seq, n)
        with naming(name):
            paper = verify_standby(row.raw, row.signature, books.owner.market)
        same(name, "hash", row.hash, standby_hash(row.raw))
        same(name, "network", paper.network, books.owner.network)
        holds(name, "booked after the one ahead of it", row.booked_us >= last_us)
        last_us = row.booked_us
        _check_turn(name, row, paper, books)
        if books.is_full:
            _check_rows(connection, name, seq, paper)
        found["price_epoch"] += 1
        found["price_row"] += len(paper.experts)
        found["holding"] += len(paper.holdings)
        _check_pay(connection, name, row, paper, first_us, books)
        found["standby_pay"] += len(paper.pay())
        books.report.standby_papers += 1
    for table in _TABLES:
        same(
            f"table {table.name}", "rows", _count(connection, table), found[table.name]
        )
    _check_overlaps(connection)


def _first_filings(connection: Connection) -> dict[bytes, int]:
    """Return when the first voucher of each worker was filed."""
    statement = (
        select(voucher.c.worker, func.min(filing.c.posted_us))
        .join(filing, filing.c.voucher_id == voucher.c.id)
        .group_by(voucher.c.worker)
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def _check_turn(name: str, row: Row[Any], paper: StandbyPaper, books: Books) -> None:
    """Check when it was booked, and that the policy then allowed as much."""
    age_us = row.booked_us - paper.to_us
    holds(name, "its epoch was over", age_us >= -_MAX_SKEW_US)
    holds(name, "its epoch was not long ago", age_us <= _MAX_AGE_US)
    terms = books.policies.get(row.policy_hash)
    if terms is None:
        raise DifferenceFound(f"{name}: there is no such policy")
    starts = sorted((each.since_us, at) for at, each in books.policies.items())
    # One that was set at the very instant may hold for it, or not yet.
    n_before = bisect_left(starts, row.booked_us, key=itemgetter(0))
    n_until = bisect_right(starts, row.booked_us, key=itemgetter(0))
    allowed = [at for _, at in starts[max(0, n_before - 1) : n_until]]
    holds(name, "its policy held then", row.policy_hash in allowed)
    holds(name, "the policy allows as much", paper.pot_uc <= terms.standby_uc)
    prices = books.prices.get(paper.price_table_hash)
    if prices is not None:
        same(name, "model of its prices", prices.manifest_hash, paper.manifest_hash)


def _check_rows(
    connection: Connection, name: str, seq: int, paper: StandbyPaper
) -> None:
    """Check that scarcity and holdings in the tables are those of the paper."""
    experts = [
        (
            each.expert >> 16,
            each.expert & 0xFFFF,
            each.demand,
            each.multiplier,
            each.target,
            each.coverage,
        )
        for each in paper.experts
    ]
    same(name, "scarcity", _stored(connection, price_row, seq), experts)
    holdings = sorted(
        (each.worker, *divmod(each.expert, 1 << 16), each.domain, each.share, amount_uc)
        for each, amount_uc in paper.amounts()
    )
    same(name, "holdings", _stored(connection, holding, seq), holdings)


def _stored(connection: Connection, table: Table, seq: int) -> list[tuple[Any, ...]]:
    columns = [column for column in table.columns if column.name != "paper"]
    statement = select(*columns).where(table.c.paper == seq)
    return sorted(tuple(row) for row in connection.execute(statement))


def _check_pay(
    connection: Connection,
    name: str,
    row: Row[Any],
    paper: StandbyPaper,
    first_us: dict[bytes, int],
    books: Books,
) -> None:
    """Check each worker's pay, and demand the transfers of those that were known."""
    replicas = Counter(each.worker for each in paper.holdings)
    wanted = [
        (worker, replicas[worker], amount_uc)
        for worker, amount_uc in paper.pay().items()
    ]
    stored = _stored(connection, standby_pay, row.seq)
    same(name, "pay", [each[:3] for each in stored], wanted)
    pot = (EXTERNAL_OWNER, AccountKind.STANDBY)
    paid_uc = 0
    for worker, _, amount_uc, state in stored:
        known_us = first_us.get(worker)
        if state == "paid":
            is_known = known_us is not None and known_us <= row.booked_us
            holds(name, f"{worker[:4].hex()} was known", is_known)
            sides = (pot, (worker, AccountKind.WORKER_AVAILABLE))
            key = row.hash + worker
            books.expect(
                TransferCode.STANDBY,
                key,
                sides,
                amount_uc,
                row.hash,
                posted_us=row.booked_us,
            )
            books.standby[row.seq, worker] = (amount_uc, row.booked_us)
            paid_uc += amount_uc
        else:
            same(name, f"state of {worker[:4].hex()}", state, "unknown")
            is_new = known_us is None or known_us >= row.booked_us
            holds(name, f"{worker[:4].hex()} was not known", is_new)
    books.report.standby_uc += paid_uc
    columns = (
        paper.manifest_hash,
        paper.epoch,
        paper.from_us,
        paper.to_us,
        paper.price_table_hash,
        paper.pot_uc,
        paid_uc,
    )
    same(name, "epoch's row", _stored(connection, price_epoch, row.seq), [columns])


def _check_overlaps(connection: Connection) -> None:
    """Check that no model has two papers of one epoch or instant."""
    rows = connection.execute(
        select(price_epoch).order_by(price_epoch.c.manifest_hash, price_epoch.c.from_us)
    ).all()
    epochs: set[tuple[bytes, int]] = set()
    for n, row in enumerate(rows):
        name = f"epoch {row.epoch} of model {row.manifest_hash[:4].hex()}"
        holds(name, "booked once", (row.manifest_hash, row.epoch) not in epochs)
        epochs.add((row.manifest_hash, row.epoch))
        if n and rows[n - 1].manifest_hash == row.manifest_hash:
            holds(name, "after the one before", rows[n - 1].to_us <= row.from_us)


def _count(connection: Connection, table: Table) -> int:
    statement = select(func.count()).select_from(table)
    return int(connection.execute(statement).scalar_one())


_ANY = select(standby_paper.c.seq).limit(1)
