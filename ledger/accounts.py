"""Double entry: accounts, transfers, and the book that the one writer keeps.

Contract: value moves only by transfers of a positive whole number of micro-credits
from one account (debit) to another (credit), so all balances always sum to zero. A
transfer's id is the first 16 bytes of SHA-256 over its code and business key: the same
event twice is one transfer, the same key with another body is `TransferConflict`. No
account but `external` goes below zero. The book reads through its caches and collects
rows; `flush` writes them in the writer's transaction. After a transaction that failed
the book is thrown away.

    external -> client_deposit         fund     credit that the operator gives
    client_deposit -> client_reserved  reserve  a grant's ceiling
    client_reserved -> worker_pending  earn     what a filed voucher adds
    client_reserved -> client_deposit  release  what is left of a grant
    worker_pending -> fee              fee      the operator's part of a closed voucher
    worker_pending -> worker_held      hold     the holdback of a closed voucher
    worker_pending -> worker_available settle   the rest, after the dispute window
    worker_pending -> client_deposit   reverse  instead: a dispute was upheld
    worker_held -> worker_available    unhold   the holdback's time is over
    worker_held -> penalty             forfeit  instead: it was lost
    worker_available -> payout_clearing  pay    a payout is prepared
    payout_clearing -> external        paid     it arrived
    payout_clearing -> worker_available  unpay  instead: it did not
    worker_available -> rounding       round    what is too small to pay, in the end
    external -> standby                endow    the operator's credit for standby pay
    fee -> standby                     allot    fees for it
    standby -> worker_available        standby  what a worker's replicas get of an epoch

Of two outcomes that exclude each other (`settle` and `reverse`, `unhold` and `forfeit`,
`paid` and `unpay`) both have the same transfer id for one business key, so that the
database itself refuses the second.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import cast

from sqlalchemy import (
    Connection,
    bindparam,
    insert,
    select,
    update,
)

from ledger.amounts import MAX_SUM_UC, format_credits
from ledger.database import highest
from ledger.errors import InsufficientFunds, TransferConflict
from ledger.keys import short
from ledger.schema import account, transfer

__all__ = [
    "EXTERNAL_OWNER",
    "Account",
    "AccountKind",
    "Book",
    "Posting",
    "TransferCode",
    "transfer_id",
]

EXTERNAL_OWNER = bytes(32)  # also of all that is the operator's: fee, standby, ...
_MAX_CACHED = 50_000


class AccountKind(StrEnum):
    """What an account is for."""

    EXTERNAL = "external"  # the world outside; minus all credit ever given
    CLIENT_DEPOSIT = "client_deposit"  # a backbone's free money
    CLIENT_RESERVED = "client_reserved"  # a backbone's money behind open grants
    WORKER_PENDING = "worker_pending"  # earned by signed vouchers
    WORKER_HELD = "worker_held"  # kept back for a time against cheating
    WORKER_AVAILABLE = "worker_available"  # may be paid out
    PAYOUT_CLEARING = "payout_clearing"  # on its way; one for each worker
    FEE = "fee"  # the operator's
    PENALTY = "penalty"  # forfeited holdbacks
    ROUNDING = "rounding"  # remainders that belong to nobody else
    STANDBY = "standby"  # the pot that held replicas are paid from


class TransferCode(StrEnum):
    """Why value moved."""

    FUND = "fund"
    RESERVE = "reserve"
    EARN = "earn"
    RELEASE = "release"
    FEE = "fee"
    HOLD = "hold"
    SETTLE = "settle"
    REVERSE = "reverse"
    UNHOLD = "unhold"
    FORFEIT = "forfeit"
    PAY = "pay"
    PAID = "paid"
    UNPAY = "unpay"
    ROUND = "round"
    ENDOW = "endow"
    ALLOT = "allot"
    STANDBY = "standby"


# The outcome that excludes another is numbered as if it were that other.
_NUMBERED_AS = {
    TransferCode.REVERSE: TransferCode.SETTLE,
    TransferCode.FORFEIT: TransferCode.UNHOLD,
    TransferCode.UNPAY: TransferCode.PAID,
}


@dataclass(slots=True)
class Account:
    """One account as the book sees it."""

    id: int
    owner: bytes  # [32]
    kind: AccountKind
    debits_uc: int
    credits_uc: int

    @property
    def balance_uc(self) -> int:
        """Credits less debits."""
        return self.credits_uc - self.debits_uc


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """One movement of value, before it is posted."""

    code: TransferCode
    key: bytes  # business key: what makes the event unique under its code
    debit: tuple[bytes, AccountKind]
    credit: tuple[bytes, AccountKind]
    amount_uc: int
    reference: bytes  # what it belongs to: a grant's or voucher's hash, a note

    @property
    def id(self) -> bytes:
        """The 16-byte transfer id."""
        return transfer_id(self.code, self.key)


def transfer_id(code: TransferCode, key: bytes) -> bytes:
    """Return the first 16 bytes of SHA-256 over code and business key."""
    named = _NUMBERED_AS.get(code, code).encode()
    return sha256(b"p2pmoe/transfer/v1\0" + named + b"\0" + key).digest()[:16]


class Book:
    """Accounts and transfers inside the writer's transaction."""

    def __init__(self, connection: Connection) -> None:
        """Read where the numbering stands."""
        self._connection = connection
        self._accounts: dict[tuple[bytes, AccountKind], Account] = {}
        self._new_accounts: list[dict[str, object]] = []
        self._changed: set[tuple[bytes, AccountKind]] = set()
        self._transfers: dict[bytes, dict[str, object]] = {}
        self._next_account = 1 + highest(connection, account.c.id)
        self._next_seq = 1 + highest(connection, transfer.c.seq)

    def account(self, owner: bytes, kind: AccountKind, now_us: int) -> Account:
        """Return an account, opened if there is none yet."""
        found = self.find(owner, kind)
        if found is not None:
            return found
        opened = Account(self._next_account, owner, kind, 0, 0)
        self._next_account += 1
        self._accounts[owner, kind] = opened
        self._new_accounts.append(
            {
                "id": opened.id,
                "owner": owner,
                "kind": kind.value,
                "opened_us": now_us,
                "debits_uc": 0,
                "credits_uc": 0,
            }
        )
        return opened

    def find(self, owner: bytes, kind: AccountKind) -> Account | None:
        """Return an account if it exists."""
        cached = self._accounts.get((owner, kind))
        if cached is not None:
            return cached
        row = self._connection.execute(
            select(account).where(
                account.c.owner == owner, account.c.kind == kind.value
            )
        ).one_or_none()
        if row is None:
            return None
        found = Account(row.id, owner, kind, row.debits_uc, row.credits_uc)
        self._accounts[owner, kind] = found
        return found

    def post(self, posting: Posting, now_us: int, *, is_new: bool = False) -> bool:
        """Post a transfer; return False if this very one was posted before.

        Args:
            posting: what to post.
            now_us: the ledger's time.
            is_new: the caller knows that the key is new (it only ever counts up), so
                the database is not asked; its unique index still refuses a repeat.

        Raises:
            TransferConflict: the id is taken by a different body.
            InsufficientFunds: the debited account would go below zero, or a sum
                would pass 2^63 - 1. Nothing was changed.
        """
        debit = self.account(*posting.debit, now_us)
        credit = self.account(*posting.credit, now_us)
        body = {
            "debit_id": debit.id,
            "credit_id": credit.id,
            "amount_uc": posting.amount_uc,
            "code": posting.code.value,
            "reference": posting.reference,
        }
        if not is_new and self._is_repeat(posting, body):
            return False
        _refuse_uncovered(debit, credit, posting.amount_uc)
        debit.debits_uc += posting.amount_uc
        credit.credits_uc += posting.amount_uc
        self._changed.update((posting.debit, posting.credit))
        self._transfers[posting.id] = {
            "seq": self._next_seq,
            "id": posting.id,
            **body,
            "posted_us": now_us,
        }
        self._next_seq += 1
        return True

    def flush(self) -> None:
        """Write what was collected; the caller commits."""
        if self._new_accounts:
            self._connection.execute(insert(account), self._new_accounts)
        if self._transfers:
            self._connection.execute(insert(transfer), list(self._transfers.values()))
        if self._changed:
            self._connection.execute(
                _UPDATE_BALANCE,
                [
                    {
                        "account_id": changed.id,
                        "new_debits_uc": changed.debits_uc,
                        "new_credits_uc": changed.credits_uc,
                    }
                    for changed in map(self._accounts.__getitem__, self._changed)
                ],
            )
        self._new_accounts, self._transfers = [], {}
        self._changed = set()
        if len(self._accounts) > _MAX_CACHED:
            self._accounts = {}

    def _is_repeat(self, posting: Posting, body: Mapping[str, object]) -> bool:
        taken: Mapping[str, object] | None = self._transfers.get(posting.id)
        if taken is None:
            rows = self._connection.execute(_BY_ID, {"id": posting.id})
            taken = cast("Mapping[str, object] | None", rows.mappings().one_or_none())
        if taken is None:
            return False
        if any(taken[name] != value for name, value in body.items()):
            raise TransferConflict(
                f"transfer {posting.id.hex()} ({posting.code}) has another body"
            )
        return True


_BY_ID = select(transfer).where(transfer.c.id == bindparam("id"))
_UPDATE_BALANCE = (
    update(account)
    .where(account.c.id == bindparam("account_id"))
    .values(
        debits_uc=bindparam("new_debits_uc"), credits_uc=bindparam("new_credits_uc")
    )
)


def _refuse_uncovered(debit: Account, credit: Account, amount_uc: int) -> None:
    if amount_uc <= 0:
        raise InsufficientFunds(f"transfer of {amount_uc} micro-credits")
    if debit.kind != AccountKind.EXTERNAL and debit.balance_uc < amount_uc:
        raise InsufficientFunds(
            f"{debit.kind} of {short(debit.owner)} has "
            f"{format_credits(debit.balance_uc)} credits, needs "
            f"{format_credits(amount_uc)}"
        )
    if max(debit.debits_uc, credit.credits_uc) + amount_uc > MAX_SUM_UC:
        raise InsufficientFunds(f"sums pass {MAX_SUM_UC} micro-credits")
