"""Audit: every transfer has one reason, and the balances follow from the transfers.

Contract: the transfers are read in order of posting; each must be one that the evidence
demands (or credit that the operator gave, named by its client and note, or put into the
pot of standby pay, named by its note), and none may
be missing. Their numbers have no gap, their times never go back, and no account but
`external` goes below zero on the way. Both sides of every account are recomputed from
them. Reads only; raises `DifferenceFound`.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, select

from ledger.accounts import EXTERNAL_OWNER, AccountKind, TransferCode, transfer_id
from ledger.audit_books import Books, Due, Side, same
from ledger.errors import DifferenceFound
from ledger.schema import account, transfer

__all__ = ["check_balances", "check_transfers"]

_OUTSIDE: Side = (EXTERNAL_OWNER, AccountKind.EXTERNAL)
_POT_SOURCES: Mapping[str, AccountKind] = {
    TransferCode.ENDOW: AccountKind.EXTERNAL,
    TransferCode.ALLOT: AccountKind.FEE,
}


def check_transfers(connection: Connection, books: Books) -> None:
    """Check that the transfers are those that must be there, in order."""
    owners = {row.id: _side(row) for row in connection.execute(select(account))}
    balances: defaultdict[Side, int] = defaultdict(int)
    last_us = 0
    rows = connection.execute(select(transfer).order_by(transfer.c.seq))
    for seq, row in enumerate(rows, start=1):
        name = f"transfer {row.id.hex()}"
        same(name, "number", row.seq, seq)
        _check_reason(name, row, owners, books)
        if row.posted_us < last_us:
            raise DifferenceFound(f"{name}: posted before the one ahead of it")
        last_us = row.posted_us
        debit, credit = owners[row.debit_id], owners[row.credit_id]
        balances[debit] -= row.amount_uc
        balances[credit] += row.amount_uc
        if balances[debit] < 0 and debit != _OUTSIDE:
            raise DifferenceFound(f"{name}: its {debit[1]} account is below zero")
        books.report.transfers += 1
    for missing, wanted in books.due.items():
        raise DifferenceFound(
            f"transfer {missing.hex()}: {wanted.code} of {wanted.amount_uc} is missing"
        )


def _side(row: Row[Any]) -> Side:
    if row.kind not in set(AccountKind):
        raise DifferenceFound(f"account {row.id} is of kind {row.kind!r:.40}")
    return row.owner, AccountKind(row.kind)


def _check_reason(
    name: str, row: Row[Any], owners: dict[int, Side], books: Books
) -> None:
    wanted = books.due.pop(row.id, None)
    debit, credit = owners.get(row.debit_id), owners.get(row.credit_id)
    if debit is None or credit is None:
        raise DifferenceFound(f"{name}: there is no such account")
    found = Due(
        code=row.code,
        debit=debit,
        credit=credit,
        amount_uc=row.amount_uc,
        reference=row.reference,
        posted_us=row.posted_us,
    )
    if wanted is None and row.code == TransferCode.FUND:
        wanted = _funding(row, credit[0])
    elif wanted is None and row.code in _POT_SOURCES:
        wanted = _filling(row)
    if wanted is None:
        raise DifferenceFound(f"{name}: {row.code} of {row.amount_uc} unexplained")
    if wanted.posted_us is None:
        wanted = replace(wanted, posted_us=row.posted_us)
    for part in ("code", "debit", "credit", "amount_uc", "reference", "posted_us"):
        same(name, part, getattr(found, part), getattr(wanted, part))


def _funding(row: Row[Any], client: bytes) -> Due | None:
    """Return what a credit by the operator must be; None if it is not named so."""
    if row.id != transfer_id(TransferCode.FUND, client + row.reference):
        return None
    return Due(
        code=TransferCode.FUND,
        debit=_OUTSIDE,
        credit=(client, AccountKind.CLIENT_DEPOSIT),
        amount_uc=row.amount_uc,
        reference=row.reference,
        posted_us=None,
    )


def _filling(row: Row[Any]) -> Due | None:
    """Return what filled the pot of standby pay; None if it is not named so."""
    if row.id != transfer_id(TransferCode(row.code), row.reference):
        return None
    return Due(
        code=row.code,
        debit=(EXTERNAL_OWNER, _POT_SOURCES[row.code]),
        credit=(EXTERNAL_OWNER, AccountKind.STANDBY),
        amount_uc=row.amount_uc,
        reference=row.reference,
        posted_us=None,
    )


def check_balances(connection: Connection, books: Books) -> None:
    """Recompute both sides of every account."""
    debits: defaultdict[int, int] = defaultdict(int)
    credits_: defaultdict[int, int] = defaultdict(int)
    columns = (transfer.c.debit_id, transfer.c.credit_id, transfer.c.amount_uc)
    for debit_id, credit_id, amount_uc in connection.execute(select(*columns)):
        debits[debit_id] += amount_uc
        credits_[credit_id] += amount_uc
    for row in connection.execute(select(account).order_by(account.c.id)):
        name = f"account {row.kind} of {row.owner[:4].hex()}"
        same(name, "debits", row.debits_uc, debits[row.id])
        same(name, "credits", row.credits_uc, credits_[row.id])
        books.report.accounts += 1
