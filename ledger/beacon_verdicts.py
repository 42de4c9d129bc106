"""What an audit comes to, and what a conviction costs; on the writer's desk.

Contract: as `ledger.settlement`. A decided audit stays as it is: the same finding again
changes nothing. A conviction closes the voucher's key if it is open, gives its net
amount back to the backbone unless it was released already, and takes every holdback
that is held of the worker at that moment; the operator's fee stays. Disputes of that
voucher end with it. Nothing but two referees' words convicts: silence, a backbone that
shows no rows and a referee that cannot be found cost the worker nothing.
"""

from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import update

from ledger.beacon_rows import (
    Audited,
    OpeningRecord,
    audit_by_id,
    convictions_of,
    opening_record,
)
from ledger.beacon_words import AuditState, Word, pack_words, weigh_words
from ledger.closing import close, void
from ledger.closings import ClosedState
from ledger.desk import Desk
from ledger.dispute_rows import audit_verdict
from ledger.disputes import end_disputes
from ledger.errors import DifferenceFound, GrantRefused
from ledger.holdback import forfeit
from ledger.keys import short
from ledger.leaf import Leaf
from ledger.schema_beacon import audit

__all__ = [
    "MAX_CONVICTIONS",
    "Finding",
    "decide_audit",
    "halvings_of",
    "refuse_convicted",
    "shrunk_ceiling",
]

MAX_CONVICTIONS = 2  # vouchers; a worker with so many gets no grant any more
_FAILURES_FREE = 10  # of a backbone's last audits, as crashes happen
_HALVED_FOR = 10  # each so many more halve what a new grant may reach
_MAX_HALVINGS = 6
_HASH_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What asking about one audit has come to."""

    audit: int
    state: AuditState  # not OPEN
    words: tuple[Word, ...] = ()
    opened: bytes = b""  # the rows
    detail: str = ""


def decide_audit(desk: Desk, finding: Finding) -> Audited | None:
    """Write a finding down and do what follows; None if it was decided before.

    Raises:
        NotFound: there is no such audit.
        DifferenceFound: the finding does not follow from its words, or the rows are
            not the leaf's; nothing was changed.
    """
    desk.write_out()
    found = audit_by_id(desk.connection, finding.audit)
    if found.state is not AuditState.OPEN:
        return None
    _check(finding, found.leaf, found.worker)
    is_failed = finding.state is AuditState.FAILED
    is_reversed = is_failed and _convict(desk, found)
    desk.connection.execute(
        update(audit)
        .where(audit.c.id == found.id)
        .values(
            state=finding.state.value,
            words=pack_words(finding.words),
            opened=finding.opened if is_failed else None,
            is_reversed=int(is_reversed),
            detail=finding.detail[:200],
            decided_us=desk.now_us,
        )
    )
    return audit_by_id(desk.connection, found.id)


def refuse_convicted(desk: Desk, worker: bytes) -> None:
    """Refuse a grant for a worker that was convicted too often.

    Raises:
        GrantRefused: it was.
    """
    n_vouchers = convictions_of(desk.connection, worker)
    if n_vouchers >= MAX_CONVICTIONS:
        raise GrantRefused(
            f"worker {short(worker)} gave wrong results in {n_vouchers} vouchers: its "
            "key is refused",
            peer=worker,
        )


def shrunk_ceiling(desk: Desk, backbone: bytes, ceiling_uc: int) -> int:
    """Return what a new grant of a backbone may reach, given how it opens audits."""
    record = opening_record(desk.connection, backbone)
    return max(1, ceiling_uc >> halvings_of(record))


def halvings_of(record: OpeningRecord) -> int:
    """Return how often a backbone's grants are halved."""
    beyond = max(0, record.n_unopened - _FAILURES_FREE)
    return min(_MAX_HALVINGS, -(-beyond // _HALVED_FOR))


def _check(finding: Finding, leaf: Leaf, worker: bytes) -> None:
    """Check that a finding may be what it says."""
    name = f"audit {finding.audit}"
    referees = [word.referee for word in finding.words]
    if worker in referees or len(set(referees)) < len(referees):
        raise DifferenceFound(f"{name}: the referees are not others, each once")
    weighed = weigh_words(finding.words, leaf.out_hash)
    by_words = {AuditState.PASSED, AuditState.FAILED}
    if finding.state is AuditState.OPEN or (
        (weighed in by_words or finding.state in by_words)
        and weighed is not finding.state
    ):
        raise DifferenceFound(f"{name}: {finding.state} does not follow from its words")
    if finding.state is AuditState.FAILED:
        digest = sha256(finding.opened).digest()[:_HASH_BYTES]
        if digest != leaf.x_hash:
            raise DifferenceFound(f"{name}: the rows are not those of its leaf")


def _convict(desk: Desk, found: Audited) -> bool:
    """Take back what can be; return whether the voucher was reversed by this."""
    state = desk.closings.find(found.voucher_id)
    if state is None:
        state = close(desk, desk.stored_voucher(found.voucher_id))
        desk.write_out()
    is_reversed = state.state in {ClosedState.CLOSED, ClosedState.DISPUTED}
    if is_reversed:
        end_disputes(desk, found.voucher_id, audit_verdict(found.id))
        void(desk, state)
    for held in desk.closings.held_of(found.worker):
        forfeit(desk, held)
    return is_reversed
