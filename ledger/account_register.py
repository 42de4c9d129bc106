"""An account's register: each transfer that touched it, with the balance after it.

Contract: read-only; integers of micro-credits, in order of posting. The first balance
is what the account held at the period's beginning, so registers of adjacent periods
continue each other. `other` is the account on the transfer's other side.
"""

from collections.abc import Generator
from dataclasses import dataclass

from sqlalchemy import Connection, or_, select

from ledger.accounts import AccountKind
from ledger.balances import balances
from ledger.errors import NotFound
from ledger.periods import Period
from ledger.schema import account, transfer

__all__ = ["RegisterLine", "opening_balance", "register_lines"]

_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterLine:
    """One transfer, as one account sees it."""

    seq: int
    transfer_id: bytes
    posted_us: int
    code: str
    amount_uc: int  # > 0 into the account, < 0 out of it
    balance_uc: int  # after it
    other_owner: bytes
    other_kind: str
    reference: bytes


def opening_balance(
    connection: Connection, owner: bytes, kind: AccountKind, period: Period
) -> int:
    """Return what an account held at the beginning of a period."""
    lines = balances(connection, as_of_us=period.start_us, owner=owner)
    return sum(line.balance_uc for line in lines if line.kind == kind)


def register_lines(
    connection: Connection, owner: bytes, kind: AccountKind, period: Period
) -> Generator[RegisterLine, None, None]:
    """Yield an account's transfers in a period.

    Raises:
        NotFound: there is no such account.
    """
    account_id = connection.execute(
        select(account.c.id).where(account.c.owner == owner, account.c.kind == kind)
    ).scalar_one_or_none()
    if account_id is None:
        raise NotFound(f"{owner.hex()} has no account {kind.value} yet")
    balance_uc = opening_balance(connection, owner, kind, period)
    debit, credit = account.alias("debit"), account.alias("credit")
    statement = (
        select(
            transfer,
            debit.c.owner.label("debit_owner"),
            debit.c.kind.label("debit_kind"),
            credit.c.owner.label("credit_owner"),
            credit.c.kind.label("credit_kind"),
        )
        .join(debit, transfer.c.debit_id == debit.c.id)
        .join(credit, transfer.c.credit_id == credit.c.id)
        .where(
            or_(transfer.c.debit_id == account_id, transfer.c.credit_id == account_id),
            transfer.c.posted_us >= period.start_us,
            transfer.c.posted_us < period.end_us,
        )
        .order_by(transfer.c.seq)
        .execution_options(yield_per=_BATCH)
    )
    with connection.execute(statement) as rows:
        for row in rows:
            is_in = row.credit_id == account_id
            amount_uc = row.amount_uc if is_in else -row.amount_uc
            balance_uc += amount_uc
            yield RegisterLine(
                seq=row.seq,
                transfer_id=row.id,
                posted_us=row.posted_us,
                code=row.code,
                amount_uc=amount_uc,
                balance_uc=balance_uc,
                other_owner=row.debit_owner if is_in else row.credit_owner,
                other_kind=row.debit_kind if is_in else row.credit_kind,
                reference=row.reference,
            )
