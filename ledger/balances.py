"""What each account holds, now or as of an instant, and whose account is meant.

Contract: read-only functions of one open read transaction; every figure is an integer
of micro-credits. Sums over the database are by account and stay below 2^63, because no
account takes more; sums over accounts are made here.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from ledger.accounts import AccountKind
from ledger.errors import NotFound
from ledger.keys import KEY_BYTES
from ledger.schema import account, transfer

__all__ = ["BalanceLine", "balances", "find_owner", "workers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceLine:
    """One account."""

    owner: bytes
    kind: str
    debits_uc: int
    credits_uc: int

    @property
    def balance_uc(self) -> int:
        """Credits less debits."""
        return self.credits_uc - self.debits_uc


def balances(
    connection: Connection, *, as_of_us: int | None = None, owner: bytes | None = None
) -> list[BalanceLine]:
    """Return accounts with their sums, now or as of an instant (exclusive).

    As of an instant they are summed from the transfers before it; an account that was
    opened later is not there.
    """
    statement = select(account).order_by(account.c.id)
    if owner is not None:
        statement = statement.where(account.c.owner == owner)
    if as_of_us is not None:
        statement = statement.where(account.c.opened_us < as_of_us)
    rows = connection.execute(statement).all()
    if as_of_us is None:
        sums = {row.id: (row.debits_uc, row.credits_uc) for row in rows}
    else:
        sums = _sums_before(connection, as_of_us)
    return [
        BalanceLine(
            owner=row.owner,
            kind=row.kind,
            debits_uc=sums.get(row.id, (0, 0))[0],
            credits_uc=sums.get(row.id, (0, 0))[1],
        )
        for row in rows
    ]


def workers(connection: Connection) -> list[bytes]:
    """Return every worker that has an account, in order of first earning."""
    statement_ = (
        select(account.c.owner)
        .where(account.c.kind == AccountKind.WORKER_PENDING.value)
        .order_by(account.c.id)
    )
    return list(connection.execute(statement_).scalars())


def find_owner(connection: Connection, text: str) -> bytes:
    """Return the account owner that a full key or at least 8 of its hex digits name.

    A full key needs no account: what it has is then zero.

    Raises:
        NotFound: no hex, no such owner, or several.
    """
    digits = text.strip().lower()
    try:
        prefix = bytes.fromhex(digits)
    except ValueError as exc:
        raise NotFound(f"{text!r} is no account: not hex") from exc
    if len(prefix) == KEY_BYTES:
        return prefix
    owners: list[bytes] = list(
        connection.execute(select(account.c.owner).distinct()).scalars()
    )
    found = [owner for owner in owners if owner.startswith(prefix)]
    if len(prefix) < 4 or len(found) > 1:
        raise NotFound(f"{text!r} is too short for an account: give 8 or more digits")
    if not found:
        raise NotFound(f"no account begins with {text!r}: see p2pmoe ledger balance")
    return found[0]


def _sums_before(connection: Connection, as_of_us: int) -> dict[int, tuple[int, int]]:
    """Return (debits, credits) of every account from the transfers before."""
    sides: list[dict[int, int]] = []
    for side in (transfer.c.debit_id, transfer.c.credit_id):
        statement = (
            select(side, func.sum(transfer.c.amount_uc))
            .where(transfer.c.posted_us < as_of_us)
            .group_by(side)
        )
        rows = connection.execute(statement)
        sides.append({account_id: int(total) for account_id, total in rows})
    debits, credits_ = sides
    return {
        account_id: (debits.get(account_id, 0), credits_.get(account_id, 0))
        for account_id in {*debits, *credits_}
    }
