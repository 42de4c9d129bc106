"""Payouts: money on its way out of the ledger, each step written before it is taken.

Contract: a payout is prepared (its credits move to `payout_clearing`), marked as being
sent before anything leaves the house, and then told how it ended. Its id is derived
from ledger, period, worker and attempt, and goes along as the idempotency key. A worker
has at most one living payout of a period, a receipt is in at most one living payout.
What nobody knows stays `unresolved` until the operator says which: it is neither paid
nor credited back before. A step already taken is no error and does nothing.

    prepared    -> sending, void         void: the credits go back
    sending     -> sent, confirmed, failed, unresolved
    sent        -> confirmed, failed     by the bank's statement, or by the operator
    unresolved  -> confirmed, failed     by the operator alone
    confirmed: the credits left (`paid`); failed, void: they are available (`unpay`)
"""

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any

from sqlalchemy import Row, insert, select, update

from ledger.accounts import EXTERNAL_OWNER, AccountKind, Posting, TransferCode
from ledger.database import highest
from ledger.errors import PayoutRefused
from ledger.office import Office, Operation
from ledger.params import Params
from ledger.payout_list import payout_document, payout_rows
from ledger.schema_closing import payout, payout_event

__all__ = [
    "MAX_AT_ONCE",
    "PAYOUT_OPERATIONS",
    "PayoutState",
    "confirm",
    "note_event",
    "payout_id_of",
    "post_payout",
    "record",
    "recover",
    "resolve",
    "start",
    "void",
]

MAX_AT_ONCE = 20_000  # payouts in one operation
_ID_BYTES = 16
_MAX_DETAIL = 200


class PayoutState(StrEnum):
    """Where a payout stands."""

    PREPARED = "prepared"
    SENDING = "sending"
    SENT = "sent"
    CONFIRMED = "confirmed"
    FAILED = "failed"
    UNRESOLVED = "unresolved"
    VOID = "void"


_S = PayoutState
_STEPS: Mapping[PayoutState, tuple[PayoutState, ...]] = {
    _S.PREPARED: (_S.SENDING, _S.VOID),
    _S.SENDING: (_S.SENT, _S.CONFIRMED, _S.FAILED, _S.UNRESOLVED),
    _S.SENT: (_S.CONFIRMED, _S.FAILED),
    _S.UNRESOLVED: (_S.CONFIRMED, _S.FAILED),
    _S.CONFIRMED: (),
    _S.FAILED: (),
    _S.VOID: (),
}
_OUTCOMES = {  # what the last step moves out of clearing
    _S.CONFIRMED: TransferCode.PAID,
    _S.FAILED: TransferCode.UNPAY,
    _S.VOID: TransferCode.UNPAY,
}


def payout_id_of(
    ledger: bytes, borders: tuple[int, int], worker: bytes, attempt: int
) -> bytes:
    """Return the 16-byte id of a worker's payout of a period [start_us, end_us)."""
    parts = (
        b"p2pmoe/payout/v1\0",
        ledger,
        borders[0].to_bytes(8, "big"),
        borders[1].to_bytes(8, "big"),
        worker,
        attempt.to_bytes(4, "big"),
    )
    return sha256(b"".join(parts)).digest()[:_ID_BYTES]


def post_payout(
    office: Office, code: TransferCode, payout_id: bytes, worker: bytes, amount_uc: int
) -> None:
    """Move a payout's credits into clearing, or out of it: key and reference its id."""
    clearing = (worker, AccountKind.PAYOUT_CLEARING)
    available = (worker, AccountKind.WORKER_AVAILABLE)
    external = (EXTERNAL_OWNER, AccountKind.EXTERNAL)
    debit, credit = {
        TransferCode.PAY: (available, clearing),
        TransferCode.PAID: (clearing, external),
        TransferCode.UNPAY: (clearing, available),
    }[code]
    posting = Posting(
        code=code,
        key=payout_id,
        debit=debit,
        credit=credit,
        amount_uc=amount_uc,
        reference=payout_id,
    )
    office.desk.book.post(posting, office.now_us)


def note_event(
    office: Office, payout_id: bytes, state: PayoutState, detail: str
) -> None:
    """Write one step into a payout's list of events."""
    event = {
        "seq": 1 + highest(office.connection, payout_event.c.seq),
        "payout_id": payout_id,
        "state": state.value,
        "detail": detail,
        "posted_us": office.now_us,
    }
    office.connection.execute(insert(payout_event), [event])


def _may_step(office: Office, row: Row[Any], to: PayoutState, reference: str) -> bool:
    state = PayoutState(row.state)
    if state == to:
        return False
    if to not in _STEPS[state]:
        raise PayoutRefused(f"payout {row.id.hex()} is {state}, so it cannot be {to}")
    if reference:
        taken = office.connection.execute(
            select(payout.c.id).where(payout.c.external_ref == reference)
        ).scalar_one_or_none()
        if taken not in (None, row.id):
            raise PayoutRefused(f"reference {reference!r} is of payout {taken.hex()}")
    return True


def _take_step(
    office: Office, row: Row[Any], to: PayoutState, detail: str, reference: str
) -> None:
    values: dict[str, object] = {
        "state": to.value,
        "changed_us": office.now_us,
        "detail": detail,
    }
    if reference:
        values["external_ref"] = reference
    changed = office.connection.execute(
        update(payout)
        .where(payout.c.id == row.id, payout.c.state == row.state)
        .values(values)
    )
    if changed.rowcount != 1:
        raise PayoutRefused(f"payout {row.id.hex()} is no longer {row.state}")
    note_event(office, row.id, to, detail)
    if to in _OUTCOMES:
        post_payout(office, _OUTCOMES[to], row.id, row.worker, row.amount_uc)


# -- operations ---------------------------------------------------------------


def start(office: Office, params: Mapping[str, object]) -> dict[str, object]:
    """Mark prepared payouts as being sent: all that are named, or none.

    Answers their documents in the order given. Raises PayoutRefused if one of them is
    not prepared, so that two commands never send the same one.
    """
    read = Params(params)
    ids = [_id_of(one) for one in read.rows("payouts", max_rows=MAX_AT_ONCE)]
    read.done()
    _refuse_twice("payout", [one.hex() for one in ids])
    rows = payout_rows(office.connection, ids)
    for row in rows.values():
        if row.state != PayoutState.PREPARED:
            raise PayoutRefused(
                f"payout {row.id.hex()} is {row.state}, so it cannot be sent"
            )
    for row in rows.values():
        _take_step(office, row, PayoutState.SENDING, "", "")
    sending = {"state": PayoutState.SENDING.value}
    return {"payouts": [payout_document(rows[one]) | sending for one in ids]}


def record(office: Office, params: Mapping[str, object]) -> dict[str, object]:
    """Write how sending ended: sent, confirmed, failed or unresolved, for each."""
    read = Params(params)
    outcomes = [_outcome(one) for one in read.rows("outcomes", max_rows=MAX_AT_ONCE)]
    read.done()
    _refuse_twice("payout", [one[0].hex() for one in outcomes])
    _refuse_twice("reference", [one[3] for one in outcomes if one[3]])
    rows = payout_rows(office.connection, [one[0] for one in outcomes])
    due = [
        (rows[payout_id], to, detail, reference)
        for payout_id, to, detail, reference in outcomes
        if _may_step(office, rows[payout_id], to, reference)
    ]
    for row, to, detail, reference in due:
        _take_step(office, row, to, detail, reference)
    return {"recorded": len(due)}


def recover(office: Office, params: Mapping[str, object]) -> dict[str, object]:
    """Take what was being sent when its command ended as unresolved; answer which.

    Only for whoever holds the right to send: nothing is being sent now.
    """
    Params(params).done()
    ids = office.connection.execute(
        select(payout.c.id)
        .where(payout.c.state == PayoutState.SENDING.value)
        .order_by(payout.c.id)
    ).scalars()
    rows = payout_rows(office.connection, list(ids))
    for row in rows.values():
        detail = "the command that sent it ended before it said how"
        _take_step(office, row, PayoutState.UNRESOLVED, detail, "")
    return {"unresolved": [one.hex() for one in rows]}


def void(office: Office, params: Mapping[str, object]) -> dict[str, object]:
    """Give up a payout that was not sent; its credits are available again."""
    read = Params(params)
    reason = read.text("reason", max_chars=_MAX_DETAIL, default="")
    return _decide(office, read, PayoutState.VOID, reason)


def confirm(office: Office, params: Mapping[str, object]) -> dict[str, object]:
    """Say that a sent payout arrived; its credits have left."""
    read = Params(params)
    reference = read.text("reference", max_chars=_MAX_DETAIL, default="")
    detail = read.text("detail", max_chars=_MAX_DETAIL, default="")
    row = _row_of(office, read.raw("id", _ID_BYTES))
    if row.state in {PayoutState.SENDING, PayoutState.UNRESOLVED}:
        error = PayoutRefused(f"payout {row.id.hex()} is {row.state}, not sent")
        error.advice = "Say which with `payout resolve ID --paid` or `--not-paid`."
        raise error
    return _finish(office, read, row, (PayoutState.CONFIRMED, detail, reference))


def resolve(office: Office, params: Mapping[str, object]) -> dict[str, object]:
    """Say whether an unresolved (or sent) payout was paid."""
    read = Params(params)
    is_paid = read.flag("paid", default=None)
    reason = read.text("reason", max_chars=_MAX_DETAIL, default="")
    reference = read.text("reference", max_chars=_MAX_DETAIL, default="")
    to = PayoutState.CONFIRMED if is_paid else PayoutState.FAILED
    return _decide(office, read, to, reason or "the operator says so", reference)


PAYOUT_OPERATIONS: dict[str, Operation] = {
    "payout.start": start,
    "payout.record": record,
    "payout.recover": recover,
    "payout.void": void,
    "payout.confirm": confirm,
    "payout.resolve": resolve,
}


def _decide(
    office: Office, read: Params, to: PayoutState, detail: str, reference: str = ""
) -> dict[str, object]:
    row = _row_of(office, read.raw("id", _ID_BYTES))
    return _finish(office, read, row, (to, detail, reference))


def _finish(
    office: Office, read: Params, row: Row[Any], outcome: tuple[PayoutState, str, str]
) -> dict[str, object]:
    """Take the last step if `commit` says so; else say what it would be."""
    to, detail, reference = outcome
    commit = read.flag("commit")
    read.done()
    is_new = _may_step(office, row, to, reference)
    if is_new and commit:
        _take_step(office, row, to, detail, reference)
    return {
        "payout": payout_document(row),
        "state": to.value,
        "is_new": is_new,
        "committed": commit,
    }


def _refuse_twice(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise PayoutRefused(f"{what} {name!r} is named twice")
        seen.add(name)


def _row_of(office: Office, payout_id: bytes) -> Row[Any]:
    return payout_rows(office.connection, [payout_id])[payout_id]


def _id_of(one: Params) -> bytes:
    payout_id = one.raw("id", _ID_BYTES)
    one.done()
    return payout_id


def _outcome(one: Params) -> tuple[bytes, PayoutState, str, str]:
    payout_id = one.raw("id", _ID_BYTES)
    text = one.text("state")
    detail = one.text("detail", max_chars=_MAX_DETAIL, default="")
    reference = one.text("reference", max_chars=_MAX_DETAIL, default="")
    one.done()
    if text not in _STEPS[PayoutState.SENDING]:
        raise PayoutRefused(f"{text!r} is no outcome of sending")
    return payout_id, PayoutState(text), detail, reference
