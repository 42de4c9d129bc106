"""The rules of a dispute: opened, answered, judged, or decided by the clock.

Contract: as `ledger.settlement`: everything runs on the writer's desk, decides first
and acts after; a `LedgerError` means that nothing was changed. What a dispute's states
and verdicts mean is said in `ledger.dispute_rows`. While one is pending its voucher is
`disputed` and nothing of it is released. A claim is taken from a party of a closed
voucher, within its dispute window, about a leaf that the ledger has; the same paper
again is the same dispute. A decision for the backbone reverses the voucher's net
amount and forfeits its holdback; the operator's fee stays.
"""

from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import func, insert, or_, select, update

from ledger import closing as rules
from ledger.closings import ClosedState, ClosingState, HoldbackState
from ledger.desk import Desk
from ledger.dispute_papers import (
    DisputeClaim,
    Reason,
    verify_dispute_answer,
    verify_dispute_claim,
)
from ledger.dispute_rows import (
    NOT_ANSWERED,
    NOT_JUDGED,
    REASON_NAMES,
    ROWS_OPENED,
    Dispute,
    DisputeState,
    Papers,
    dispute_by_id,
    disputes_where,
    papers_of,
    recomputed_verdict,
    reversed_verdict,
)
from ledger.errors import DisputeRefused, NotFound
from ledger.holdback import forfeit
from ledger.keys import short
from ledger.leaf import LEAF_BYTES
from ledger.policy import Policy
from ledger.schema_closing import closing, dispute, policy

__all__ = [
    "Judgement",
    "answer_dispute",
    "end_disputes",
    "judge_dispute",
    "open_dispute",
    "tend_disputes",
    "weigh_dispute",
]

_SERVING = slice(9, 13)  # where a packed leaf has its serving number
_MAX_OF_VOUCHER = 16  # papers may be large, and each holds the money back
_MAX_AT_ONCE = 64  # in one job of the one writer; the next one goes on
_PENDING = (DisputeState.OPEN.value, DisputeState.ANSWERED.value)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a finding decides, and what the worker loses by it."""

    outcome: DisputeState
    reversed_uc: int
    forfeited_uc: int


def open_dispute(desk: Desk, raw: bytes, signature: bytes) -> Dispute:
    """Take a signed claim about a leaf of a closed voucher.

    Raises:
        FormatRefused, ProofRefused, KeyRefused, SignatureRefused: the paper is none.
        NotFound: no such closed voucher, or its dispute window is over.
        DisputeRefused: the opener is no party of it, its leaf is another, or there are
            too many.
    """
    claim = verify_dispute_claim(raw, signature)
    desk.write_out()
    state = _closed_voucher(desk, claim)
    known = disputes_where(desk.connection, dispute.c.voucher_id == state.voucher_id)
    for earlier in known:
        if (earlier.serving, earlier.opener) == (claim.leaf.serving, claim.opener):
            return _same_claim(desk, earlier, raw)
    respondent = _respondent(state, claim)
    _refuse_late(desk, state)
    if len(known) >= _MAX_OF_VOUCHER:
        raise DisputeRefused(
            f"{len(known)} disputes about voucher {short(claim.voucher)}, at most "
            f"{_MAX_OF_VOUCHER}",
            peer=claim.opener,
        )
    _check_leaf(desk, state, claim)
    if state.state is ClosedState.CLOSED:
        rules.dispute(desk, state)
    return _write_new(desk, state, claim, respondent, (raw, signature))


def answer_dispute(desk: Desk, raw: bytes, signature: bytes) -> Dispute:
    """Take the signed answer that opens the other half of the leaf.

    Raises:
        FormatRefused, ProofRefused, KeyRefused, SignatureRefused: the paper is none,
            or opens something else.
        NotFound: no dispute of this voucher has that claim.
        DisputeRefused: the wrong party answers, or too late, or it was answered.
    """
    answer = verify_dispute_answer(raw, signature)
    desk.write_out()
    found, papers = _claimed(desk, answer.claim, answer.respondent)
    if papers.answer == raw:
        return found
    answer.check(DisputeClaim.parse(papers.claim))
    if found.state is not DisputeState.OPEN:
        raise DisputeRefused(f"dispute {found.id} is {found.state}", peer=found.opener)
    if desk.now_us >= found.answer_due_us:
        raise DisputeRefused(
            f"dispute {found.id} was to be answered until {found.answer_due_us} us",
            peer=answer.respondent,
        )
    values = {"answer": raw, "answer_signature": signature, "answered_us": desk.now_us}
    _update(desk, found, state=DisputeState.ANSWERED.value, **values)
    if not found.is_against_worker:
        _decide(desk, found, DisputeState.DISMISSED, ROWS_OPENED)
    return dispute_by_id(desk.connection, found.id)


def weigh_dispute(desk: Desk, number: int, recomputed: bytes | None) -> Judgement:
    """Return what a referee's finding would decide, and cost; changes nothing.

    Args:
        desk: the writer's.
        number: the dispute's id.
        recomputed: the 16-byte hash of the results, None if the rows give none.

    Raises:
        NotFound: there is none of this number.
        DisputeRefused: it is decided, or not about results.
    """
    desk.write_out()
    found = dispute_by_id(desk.connection, number)
    if not found.state.is_pending:
        raise DisputeRefused(f"dispute {number} is {found.state}", peer=found.opener)
    if not found.is_against_worker:
        raise DisputeRefused(
            f"dispute {number} is about rows: an answer decides it", peer=found.opener
        )
    claim = DisputeClaim.parse(papers_of(desk.connection, number).claim)
    if recomputed == claim.leaf.out_hash:
        return Judgement(DisputeState.DISMISSED, 0, 0)
    state = _closing(desk, found)
    is_held = state.holdback is HoldbackState.HELD
    held_uc = state.held_uc if is_held else 0
    return Judgement(DisputeState.UPHELD, state.net_uc, held_uc)


def judge_dispute(
    desk: Desk, number: int, recomputed: bytes | None, referee: str
) -> Dispute:
    """Decide a dispute about results by what a referee recomputed from its rows.

    Args:
        desk: the writer's.
        number: the dispute's id.
        recomputed: the 16-byte hash of the results, None if the rows give none.
        referee: who or what computed, for the record.

    Raises:
        NotFound, DisputeRefused: as `weigh_dispute`.
    """
    outcome = weigh_dispute(desk, number, recomputed).outcome
    found = dispute_by_id(desk.connection, number)
    _decide(desk, found, outcome, recomputed_verdict(recomputed, referee))
    return dispute_by_id(desk.connection, number)


def tend_disputes(desk: Desk) -> int:
    """Decide the disputes whose time is over; return how many.

    At most some dozens at once: who gets a full number calls again.
    """
    desk.write_out()
    now = desk.now_us
    given_us = dispute.c.answer_due_us - dispute.c.opened_us
    is_open = dispute.c.state == DisputeState.OPEN.value
    is_answered = dispute.c.state == DisputeState.ANSWERED.value
    overdue = or_(
        is_open & (dispute.c.answer_due_us <= now),
        is_answered & (dispute.c.answered_us + given_us <= now),
    )
    n_decided = 0
    for found in disputes_where(desk.connection, overdue, limit=_MAX_AT_ONCE):
        current = dispute_by_id(desk.connection, found.id)
        if current.state is DisputeState.OPEN:
            _decide(desk, current, DisputeState.UPHELD, NOT_ANSWERED)
        elif current.state is DisputeState.ANSWERED:
            _decide(desk, current, DisputeState.DISMISSED, NOT_JUDGED)
        n_decided += 1
    return n_decided


def end_disputes(desk: Desk, voucher_id: int, verdict: str) -> None:
    """Dismiss what is pending about a voucher that something else has reversed."""
    pending = disputes_where(
        desk.connection,
        dispute.c.voucher_id == voucher_id,
        dispute.c.state.in_(_PENDING),
    )
    for each in pending:
        _end(desk, each, DisputeState.DISMISSED, verdict)


def _closed_voucher(desk: Desk, claim: DisputeClaim) -> ClosingState:
    if claim.network != desk.owner.network:
        raise DisputeRefused("a claim of another network", peer=claim.opener)
    voucher_id = desk.connection.execute(
        select(closing.c.voucher_id).where(closing.c.content_hash == claim.voucher)
    ).scalar_one_or_none()
    state = None if voucher_id is None else desk.closings.find(voucher_id)
    if state is None:
        raise NotFound(f"no tab was closed by voucher {short(claim.voucher)}")
    return state


def _respondent(state: ClosingState, claim: DisputeClaim) -> bytes:
    parties = {
        Reason.WRONG_RESULTS: (state.backbone, state.worker),
        Reason.UNKNOWN_ROWS: (state.worker, state.backbone),
    }
    opener, respondent = parties[claim.reason]
    if claim.opener != opener:
        raise DisputeRefused(
            f"{short(claim.opener)} cannot claim {REASON_NAMES[claim.reason]} of "
            f"voucher {short(claim.voucher)}",
            peer=claim.opener,
        )
    return respondent


def _refuse_late(desk: Desk, state: ClosingState) -> None:
    in_window = state.state in {ClosedState.CLOSED, ClosedState.DISPUTED}
    if not in_window or desk.now_us >= state.release_due_us:
        raise NotFound(
            f"voucher {short(state.content_hash)} is {state.state}; it could be "
            f"disputed until {state.release_due_us} us"
        )


def _same_claim(desk: Desk, earlier: Dispute, raw: bytes) -> Dispute:
    """Return the dispute that this very claim opened; refuse another about its leaf."""
    if papers_of(desk.connection, earlier.id).claim != raw:
        raise DisputeRefused(
            f"dispute {earlier.id} is about serving {earlier.serving} already",
            peer=earlier.opener,
        )
    return earlier


def _check_leaf(desk: Desk, state: ClosingState, claim: DisputeClaim) -> None:
    """Check that the claim's leaf is the voucher's, to the bit."""
    wanted = claim.leaf.pack()
    block = desk.all_leaves(state.voucher_id)
    for start in range(0, len(block), LEAF_BYTES):
        leaf = block[start : start + LEAF_BYTES]
        if leaf[_SERVING] == wanted[_SERVING]:
            if leaf == wanted:
                return
            break
    raise DisputeRefused(
        f"serving {claim.leaf.serving} of voucher {short(claim.voucher)} has no "
        "such leaf",
        peer=claim.opener,
    )


def _write_new(
    desk: Desk,
    state: ClosingState,
    claim: DisputeClaim,
    respondent: bytes,
    paper: tuple[bytes, bytes],
) -> Dispute:
    raw_policy = desk.connection.execute(
        select(policy.c.raw).where(policy.c.hash == state.policy_hash)
    ).scalar_one()
    highest = select(func.coalesce(func.max(dispute.c.id), 0))
    number = 1 + int(desk.connection.execute(highest).scalar_one())
    row = {
        "id": number,
        "voucher_id": state.voucher_id,
        "serving": claim.leaf.serving,
        "opener": claim.opener,
        "respondent": respondent,
        "reason": REASON_NAMES[claim.reason],
        "claim": paper[0],
        "claim_signature": paper[1],
        "opened_us": desk.now_us,
        "answer_due_us": desk.now_us + Policy.parse(raw_policy).answer_us,
        "verdict": "",
        "state": DisputeState.OPEN.value,
    }
    desk.connection.execute(insert(dispute).values(**row))
    return dispute_by_id(desk.connection, number)


def _claimed(
    desk: Desk, claim_hash: bytes, respondent: bytes
) -> tuple[Dispute, Papers]:
    """Return the dispute that a claim opened against this respondent."""
    numbers = desk.connection.execute(
        select(dispute.c.id)
        .where(dispute.c.respondent == respondent)
        .order_by(dispute.c.id.desc())
    ).scalars()
    for number in numbers.all():  # one paper at a time: they may be large
        papers = papers_of(desk.connection, number)
        if sha256(papers.claim).digest() == claim_hash:
            return dispute_by_id(desk.connection, number), papers
    raise NotFound(
        f"no dispute against {short(respondent)} has claim {short(claim_hash)}"
    )


def _decide(desk: Desk, found: Dispute, outcome: DisputeState, verdict: str) -> None:
    """End a dispute, and do with its voucher what follows."""
    state = _closing(desk, found)
    others = [
        other
        for other in disputes_where(
            desk.connection,
            dispute.c.voucher_id == found.voucher_id,
            dispute.c.state.in_(_PENDING),
        )
        if other.id != found.id
    ]
    if outcome is DisputeState.UPHELD and found.is_against_worker:
        rules.reverse(desk, state)
        if state.holdback is HoldbackState.HELD:
            forfeit(desk, state)
        for other in others:
            _end(desk, other, DisputeState.DISMISSED, reversed_verdict(found.id))
    elif not others:
        rules.dismiss(desk, state)
    _end(desk, found, outcome, verdict)


def _closing(desk: Desk, found: Dispute) -> ClosingState:
    state = desk.closings.find(found.voucher_id)
    if state is None:
        raise NotFound(f"voucher {short(found.voucher_hash)} was never closed")
    return state


def _end(desk: Desk, found: Dispute, outcome: DisputeState, verdict: str) -> None:
    _update(desk, found, state=outcome.value, verdict=verdict, decided_us=desk.now_us)


def _update(desk: Desk, found: Dispute, **values: object) -> None:
    desk.connection.execute(
        update(dispute).where(dispute.c.id == found.id).values(**values)
    )
