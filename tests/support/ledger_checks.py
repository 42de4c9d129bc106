"""What must hold of any ledger, whatever happened to it: looked at in its database."""

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from ledger.accounts import EXTERNAL_OWNER, TransferCode
from ledger.audit import verify_ledger
from ledger.balances import balances, workers
from ledger.flows import WORKER_KINDS
from ledger.periods import ALL_TIME, Period
from ledger.schema import account, filing, rejected, transfer
from ledger.schema_closing import closing, one_sided
from ledger.statements import receipts, statement
from ledger.store import Store
from ledger.voucher import voucher_hash
from tests.support.ledger_world import World

__all__ = ["check_books", "held_balances"]

_EXCLUSIVE = (
    {TransferCode.SETTLE, TransferCode.REVERSE},
    {TransferCode.UNHOLD, TransferCode.FORFEIT},
    {TransferCode.PAID, TransferCode.UNPAY},
    {TransferCode.RELEASE},
    {TransferCode.FEE},
    {TransferCode.HOLD},
)


def held_balances(
    store: Store, names: Mapping[bytes, str]
) -> dict[tuple[str, str], int]:
    """All balances but zeros, by who and kind."""
    named = {EXTERNAL_OWNER: "external", **names}
    with store.reader().session() as connection:
        return {
            (named[line.owner], line.kind): line.balance_uc
            for line in balances(connection)
            if line.balance_uc
        }


def check_books(store: Store, world: World) -> None:
    """Check everything that needs no knowledge of what happened."""
    with store.reader().session() as connection:
        _check_balances(connection)
        _check_outcomes(connection)
        _check_statements(connection)
        _check_receipts(connection)
    verify_ledger(store.reader(), world.identity)


def _check_balances(connection: Connection) -> None:
    """Debits equal credits, and the transfers alone give what is stored."""
    debits, credits_ = Counter[int](), Counter[int]()
    for row in connection.execute(select(transfer)):
        debits[row.debit_id] += row.amount_uc
        credits_[row.credit_id] += row.amount_uc
    assert debits.total() == credits_.total()
    for row in connection.execute(select(account)):
        rebuilt = debits[row.id], credits_[row.id]
        assert (row.debits_uc, row.credits_uc) == rebuilt, row
    assert sum(line.balance_uc for line in balances(connection)) == 0


def _check_outcomes(connection: Connection) -> None:
    """What is pending went one way at most, and what closed adds up."""
    outcomes = Counter[tuple[bytes, str]]()
    for row in connection.execute(select(transfer)):
        outcomes[bytes(row.reference), row.code] += 1
    for codes in _EXCLUSIVE:
        for reference, _ in outcomes:
            assert sum(outcomes[reference, code] for code in codes) <= 1
    earned = dict(
        connection.execute(
            select(filing.c.voucher_id, func.sum(filing.c.amount_uc)).group_by(
                filing.c.voucher_id
            )
        ).all()
    )
    for row in connection.execute(select(closing)):
        assert row.amount_uc == earned[row.voucher_id]
        assert row.amount_uc == row.fee_uc + row.held_uc + row.net_uc


def _check_statements(connection: Connection) -> None:
    """All statements are the trial balance; two adjacent ones are that of both."""
    times = connection.execute(
        select(transfer.c.posted_us).order_by(transfer.c.posted_us)
    )
    instants = list(times.scalars())
    owed = 0
    for worker in workers(connection):
        whole = statement(connection, worker, ALL_TIME)
        owed += whole.closing_uc
        for middle_us in instants[:: len(instants) // 3 + 1]:
            first = statement(connection, worker, Period(0, middle_us))
            second = statement(connection, worker, Period(middle_us, ALL_TIME.end_us))
            assert first.flows.closing == second.flows.opening
            assert (first.opening_uc, second.closing_uc) == (0, whole.closing_uc)
            for code in TransferCode:
                moved = first.moved_uc(code) + second.moved_uc(code)
                assert moved == whole.moved_uc(code)
            assert _sums([first, second]) == _sums([whole])
    kinds = {kind.value for kind in WORKER_KINDS}
    lines = [line for line in balances(connection) if line.kind in kinds]
    assert owed == sum(line.balance_uc for line in lines)


def _sums(statements: list) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for each in statements:
        for line in each.states:
            found[line.state, line.why, "receipts"] += line.receipts
            found[line.state, line.why, "uc"] += line.amount_uc
    return +found


def _check_receipts(connection: Connection) -> None:
    """Every receipt is there once, in one state; a refused copy of one is no other."""
    lines = receipts(connection)
    names = [line.voucher_hash for line in lines]
    assert len(names) == len(set(names))
    refused = connection.execute(select(rejected.c.raw)).scalars()
    filed = connection.execute(select(filing.c.content_hash)).scalars()
    halves = connection.execute(
        select(one_sided.c.content_hash).where(one_sided.c.state != "signed")
    ).scalars()
    assert set(names) == {*filed, *halves, *map(voucher_hash, refused)}
