"""The rules of credit and grants: what a backbone may owe, and what is given back.

Contract: everything here runs on the writer's desk, decides first and acts after; a
`LedgerError` means that nothing was changed. A grant is signed only once its ceiling is
reserved; a backbone that would not show audited rows gets less than it asked for, and
a worker that was convicted twice gets none. When a grant is released, so is what is
left of it, and the keys that no open grant covers any more are closed. What a filed
voucher moves is in `ledger.filings`, what a closed one does in `ledger.closing`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import func, select

from ledger.accounts import EXTERNAL_OWNER, AccountKind, Posting, TransferCode
from ledger.beacon_verdicts import refuse_convicted, shrunk_ceiling
from ledger.claims import GrantOrder, IssuedGrant
from ledger.closing import close_unfinished
from ledger.desk import Desk
from ledger.errors import GrantRefused
from ledger.grant import Grant, sign_grant
from ledger.grants import GrantState
from ledger.keys import parse_key
from ledger.prices import PriceTable, verify_price_table
from ledger.schema import account, transfer

__all__ = [
    "OPENING_NOTE",
    "GrantPolicy",
    "float_leaves",
    "fund",
    "fund_key",
    "issue_grant",
    "release_expired",
]

_HOUR_US = 3_600_000_000
_DAY_US = 24 * _HOUR_US
OPENING_NOTE = "opening credit"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantPolicy:
    """The operator's choices about grants."""

    opening_credit_uc: int = 0  # given once to a backbone that has no account
    openings_of_day: int = 100  # new keys cost nothing: so many get it in a UTC day
    term_us: int = 24 * _HOUR_US  # how long a grant may be served against
    release_after_us: int = 48 * _HOUR_US  # after expiry, for late vouchers
    first_float: int = 64  # servings without a voucher, for a new pair
    max_float: int = 4096
    patient_until_us: int = 0  # nothing ends by the clock alone before this instant


def float_leaves(policy: GrantPolicy, countersigned: int) -> int:
    """Return how many unsigned servings a pair may have, given its history."""
    return max(policy.first_float, min(policy.max_float, countersigned // 4))


def fund_key(owner: bytes, note: str) -> bytes:
    """Return the business key of credit given to `owner` under a note."""
    return owner + note.encode()


def fund(desk: Desk, owner: bytes, amount_uc: int, note: str) -> bool:
    """Give credit to a backbone, once for each note; False for a repeat.

    Raises:
        KeyRefused, InsufficientFunds: nothing was changed.
        TransferConflict: the note was used for another amount.
    """
    posting = Posting(
        code=TransferCode.FUND,
        key=fund_key(owner, note),
        debit=(EXTERNAL_OWNER, AccountKind.EXTERNAL),
        credit=(parse_key(owner), AccountKind.CLIENT_DEPOSIT),
        amount_uc=amount_uc,
        reference=note.encode(),
    )
    return desk.book.post(posting, desk.now_us)


def issue_grant(
    desk: Desk, order: GrantOrder, policy: GrantPolicy, sign: Callable[[bytes], bytes]
) -> IssuedGrant:
    """Reserve a backbone's money and sign the grant.

    The same order (request number included) gets the same grant again while nothing
    is used of it: a lost answer may be asked for again.

    Raises:
        KeyRefused, SignatureRefused, FormatRefused, GrantRefused: the order is wrong.
        InsufficientFunds: the backbone has less free credit than the ceiling.
    """
    prices = _checked_prices(desk, order)
    serial = _serial(order)
    earlier = desk.grants.by_serial(order.backbone, serial)
    if earlier is not None:
        if earlier.is_open and not earlier.used_uc and _is_young(desk, earlier, policy):
            return earlier.issued
        serial = _serial(order, desk.now_us.to_bytes(8, "big"))
    refuse_convicted(desk, order.worker)
    ceiling_uc = shrunk_ceiling(desk, order.backbone, order.ceiling_uc)
    release_expired(desk, policy)
    _open_client(desk, order.backbone, policy)
    countersigned = desk.pair_leaves(order.worker, order.backbone)
    issued_grant = Grant(
        network=desk.owner.network,
        manifest_hash=prices.manifest_hash,
        worker=order.worker,
        backbone=order.backbone,
        price_table_hash=prices.content_hash,
        ceiling_uc=ceiling_uc,
        expiry_us=desk.now_us + policy.term_us,
        float_leaves=float_leaves(policy, countersigned),
        serial=serial,
    )
    reserve = Posting(
        code=TransferCode.RESERVE,
        key=issued_grant.content_hash,
        debit=(order.backbone, AccountKind.CLIENT_DEPOSIT),
        credit=(order.backbone, AccountKind.CLIENT_RESERVED),
        amount_uc=ceiling_uc,
        reference=issued_grant.content_hash,
    )
    desk.book.post(reserve, desk.now_us)
    raw = issued_grant.pack()
    issued = IssuedGrant(raw=raw, signature=sign_grant(raw, sign))
    desk.grants.add_prices(
        prices, order.price_table, order.price_signature, desk.now_us
    )
    desk.grants.add(issued, issued_grant, desk.now_us)
    return issued


def release_expired(desk: Desk, policy: GrantPolicy) -> int:
    """Give back what is left of grants past expiry and grace; return how many.

    Keys of theirs that no open grant covers are closed with what was filed.
    """
    if desk.now_us < policy.patient_until_us:
        return 0
    expired = desk.grants.expired(desk.now_us - policy.release_after_us)
    for state in expired:
        _release(desk, state)
    if not expired:
        return 0
    desk.write_out()  # closing reads what is written
    for state in expired:
        worker, backbone = state.grant.worker, state.grant.backbone
        desk.halves.expire(worker, backbone, state.hash)
    for worker, backbone in sorted(
        {(state.grant.worker, state.grant.backbone) for state in expired}
    ):
        close_unfinished(desk, worker, backbone)
    return len(expired)


def _release(desk: Desk, state: GrantState) -> None:
    rest = state.grant.ceiling_uc - state.used_uc
    if rest:
        backbone = state.grant.backbone
        posting = Posting(
            code=TransferCode.RELEASE,
            key=state.hash,
            debit=(backbone, AccountKind.CLIENT_RESERVED),
            credit=(backbone, AccountKind.CLIENT_DEPOSIT),
            amount_uc=rest,
            reference=state.hash,
        )
        desk.book.post(posting, desk.now_us)
    desk.grants.change(state, state.used_uc, is_open=False)


def _checked_prices(desk: Desk, order: GrantOrder) -> PriceTable:
    parse_key(order.worker)
    parse_key(order.backbone)
    if order.worker == order.backbone:
        raise GrantRefused("a backbone cannot owe itself", peer=order.backbone)
    if order.ceiling_uc <= 0:
        raise GrantRefused(f"ceiling of {order.ceiling_uc}", peer=order.backbone)
    prices = verify_price_table(
        order.price_table, order.price_signature, desk.owner.market
    )
    if prices.network != desk.owner.network:
        raise GrantRefused("prices of another network", peer=order.backbone)
    return prices


def _is_young(desk: Desk, state: GrantState, policy: GrantPolicy) -> bool:
    return state.grant.expiry_us - desk.now_us > policy.term_us // 2


def _serial(order: GrantOrder, extra: bytes = b"") -> bytes:
    """Return the serial that an order gets: the same for the same order."""
    parts = (
        order.backbone,
        order.worker,
        order.request.to_bytes(8, "big"),
        order.ceiling_uc.to_bytes(8, "big"),
        sha256(order.price_table).digest(),
        extra,
    )
    return sha256(b"p2pmoe/grant-serial/v1\0" + b"".join(parts)).digest()[:8]


def _open_client(desk: Desk, backbone: bytes, policy: GrantPolicy) -> None:
    """Lend a backbone without an account its opening credit, while the day has some."""
    if policy.opening_credit_uc <= 0:
        return
    account_of = desk.book.find(backbone, AccountKind.CLIENT_DEPOSIT)
    if account_of is not None and account_of.credits_uc:
        return  # an account may have been opened before in vain
    if _openings_of_day(desk) >= policy.openings_of_day:
        raise GrantRefused(
            f"{policy.openings_of_day} backbones got their opening credit today, try "
            "tomorrow",
            peer=backbone,
        )
    fund(desk, backbone, policy.opening_credit_uc, OPENING_NOTE)


def _openings_of_day(desk: Desk) -> int:
    desk.write_out()
    today_us = desk.now_us - desk.now_us % _DAY_US
    given = (
        select(func.count())
        .select_from(transfer)
        .join(account, account.c.id == transfer.c.debit_id)
        .where(account.c.kind == AccountKind.EXTERNAL.value)
        .where(transfer.c.code == TransferCode.FUND.value)
        .where(transfer.c.reference == OPENING_NOTE.encode())
        .where(transfer.c.posted_us >= today_us)
    )
    count: int = desk.connection.execute(given).scalar_one()
    return count
