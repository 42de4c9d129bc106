"""The ledger's transfers as a plain-text accounting journal.

Contract: read-only. One text that hledger and beancount both read, and that stands
alone: it opens its accounts, brings their balances forward where the period does not
begin with the ledger, has one transaction a transfer in order of posting, and ends with
the balances as assertions (beancount checks them; to hledger they are remarks). Debits
are positive, credits negative. The commodity is CREDIT with six places, exact.

    external                       Assets:External
    client_deposit, _reserved      Liabilities:Backbones:ID:Deposit, :Reserved
    worker_pending, _held,         Liabilities:Workers:ID:Pending, :Held,
      _available, payout_clearing    :Available, :Clearing
    fee, penalty, rounding         Income:Fees, Income:Penalties, Income:Rounding
    standby                        Liabilities:Standby

An ID is the whole id in upper-case hex. Of what others wrote (a note) only the hex is
printed, so nothing in it can become syntax. Syntax: the manuals of hledger (journal
format) and beancount (language syntax).
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, or_, select

from ledger.accounts import AccountKind, TransferCode
from ledger.amounts import format_credits
from ledger.balances import BalanceLine, balances
from ledger.errors import DifferenceFound
from ledger.periods import Period, format_us
from ledger.schema import account, transfer

__all__ = ["account_name", "journal_lines"]

_DAY_US = 86_400_000_000
_BATCH = 1000
_OPENING = "Equity:Opening-Balances"
_NAMES = {
    AccountKind.EXTERNAL: "Assets:External",
    AccountKind.CLIENT_DEPOSIT: "Liabilities:Backbones:{}:Deposit",
    AccountKind.CLIENT_RESERVED: "Liabilities:Backbones:{}:Reserved",
    AccountKind.WORKER_PENDING: "Liabilities:Workers:{}:Pending",
    AccountKind.WORKER_HELD: "Liabilities:Workers:{}:Held",
    AccountKind.WORKER_AVAILABLE: "Liabilities:Workers:{}:Available",
    AccountKind.PAYOUT_CLEARING: "Liabilities:Workers:{}:Clearing",
    AccountKind.FEE: "Income:Fees",
    AccountKind.PENALTY: "Income:Penalties",
    AccountKind.ROUNDING: "Income:Rounding",
    AccountKind.STANDBY: "Liabilities:Standby",
}
_CODES = frozenset(TransferCode)
_BY_KIND = {kind.value: name for kind, name in _NAMES.items()}


@dataclass(frozen=True, slots=True)
class _Opened:
    """An account of the journal."""

    id: int
    name: str
    opened_us: int
    is_asserted: bool


def account_name(owner: bytes, kind: str) -> str:
    """Return an account's name in a journal.

    Raises:
        DifferenceFound: an account of an unknown kind.
    """
    name = _BY_KIND.get(kind)
    if name is None:
        raise DifferenceFound(f"an account of kind {kind[:40]!r}")
    return name.format(owner.hex().upper())


def journal_lines(
    connection: Connection, period: Period, owner: bytes | None = None
) -> Generator[str, None, None]:
    """Yield the journal of a period, of all or of one owner, line by line.

    Raises:
        DifferenceFound: an account or a transfer of an unknown kind.
    """
    accounts = _accounts(connection, period, owner)
    of_whom = f" of {owner.hex()}" if owner else ""
    yield f"; p2pmoe ledger: transfers{of_whom} in {period}, UTC\n"
    yield "; 1 CREDIT = 1000000 micro-credits; debits are positive\n"
    yield from _opening(connection, period, owner, accounts)
    statement = _transfers(period, owner).execution_options(yield_per=_BATCH)
    with connection.execute(statement) as rows:
        for row in rows:
            yield _head(
                row.posted_us,
                f'"{_known(row.code)}" "{format_us(row.posted_us)} '
                f'seq {row.seq} ref {row.reference.hex()}" ^{row.id.hex()}',
            )
            for account_id, amount_uc in (
                (row.debit_id, row.amount_uc),
                (row.credit_id, -row.amount_uc),
            ):
                if account_id not in accounts:
                    raise DifferenceFound(
                        f"transfer {row.seq} moves an unknown account"
                    )
                yield _posting(accounts[account_id].name, amount_uc)
    yield from _assertions(connection, period, owner, accounts)


def _accounts(
    connection: Connection, period: Period, owner: bytes | None
) -> dict[int, _Opened]:
    """Return by id the accounts that the journal mentions."""
    statement = select(account).where(account.c.opened_us < period.end_us)
    if owner is not None:
        mine = select(account.c.id).where(account.c.owner == owner)
        touching = select(transfer.c.debit_id, transfer.c.credit_id).where(
            or_(transfer.c.debit_id.in_(mine), transfer.c.credit_id.in_(mine)),
            transfer.c.posted_us >= period.start_us,
            transfer.c.posted_us < period.end_us,
        )
        pairs = touching.subquery()
        statement = statement.where(
            or_(
                account.c.owner == owner,
                account.c.id.in_(select(pairs.c.debit_id)),
                account.c.id.in_(select(pairs.c.credit_id)),
            )
        )
    return {
        row.id: _Opened(
            row.id,
            account_name(row.owner, row.kind),
            row.opened_us,
            owner is None or row.owner == owner,
        )
        for row in connection.execute(statement.order_by(account.c.id))
    }


def _opening(
    connection: Connection,
    period: Period,
    owner: bytes | None,
    accounts: dict[int, _Opened],
) -> Iterator[str]:
    """Open the accounts, and bring forward what they held before the period."""
    opened_us = min((each.opened_us for each in accounts.values()), default=0)
    start = _day(max(opened_us, period.start_us))  # one day: dates only go up
    for each in accounts.values():
        yield f"{start} open {each.name}\n"
    before = [
        line
        for line in balances(connection, as_of_us=period.start_us, owner=owner)
        if line.balance_uc
    ]
    if not before:
        return
    yield f"{start} open {_OPENING}\n"
    yield _head(period.start_us, '"opening balances"')
    for line in before:
        yield _posting(account_name(line.owner, line.kind), -line.balance_uc)
    yield _posting(_OPENING, sum(line.balance_uc for line in before))


def _assertions(
    connection: Connection,
    period: Period,
    owner: bytes | None,
    accounts: dict[int, _Opened],
) -> Iterator[str]:
    """Say what every account holds the day after the last transfer."""
    last_us: int | None = connection.execute(
        select(func.max(transfer.c.posted_us)).where(
            transfer.c.posted_us < period.end_us
        )
    ).scalar_one()
    if last_us is None:
        return
    day = _day(max(last_us, period.start_us) + _DAY_US)
    names = {each.name for each in accounts.values() if each.is_asserted}
    yield "\n"
    lines: list[BalanceLine] = balances(connection, as_of_us=period.end_us, owner=owner)
    for line in lines:
        name = account_name(line.owner, line.kind)
        if name in names:
            yield f"{day} balance {name}  {_amount(-line.balance_uc)}\n"


def _transfers(period: Period, owner: bytes | None) -> Select[Any]:
    statement = (
        select(transfer)
        .where(
            transfer.c.posted_us >= period.start_us,
            transfer.c.posted_us < period.end_us,
        )
        .order_by(transfer.c.seq)
    )
    if owner is None:
        return statement
    mine = select(account.c.id).where(account.c.owner == owner)
    return statement.where(
        or_(transfer.c.debit_id.in_(mine), transfer.c.credit_id.in_(mine))
    )


def _known(code: str) -> str:
    if code not in _CODES:
        raise DifferenceFound(f"a transfer of kind {code[:40]!r}")
    return code


def _head(instant_us: int, text: str) -> str:
    return f"\n{_day(instant_us)} * {text}\n"


def _posting(name: str, amount_uc: int) -> str:
    return f"  {name}  {_amount(amount_uc)}\n"


def _amount(amount_uc: int) -> str:
    return f"{format_credits(amount_uc)} CREDIT"


def _day(instant_us: int) -> str:
    return format_us(instant_us)[:10]
