"""Audit: signed papers beside the vouchers: disputes, equivocations, finals, refusals.

Contract: a dispute's claim and answer are read from the bytes as received, with their
signers' signatures; the leaf is the voucher's own; its instants, parties and verdict
follow from the papers, the policy and the clock. A proof of equivocation is checked as
if nothing else were known. A final that waits for its worker is signed by its backbone.
What was refused is named by its bytes. What these decide about money is checked in
`ledger.audit_closings`. Reads only; raises `DifferenceFound`.
"""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Row, select

from ledger.audit_books import Books, DisputeFound, Filed, holds, naming, same
from ledger.dispute_papers import (
    DisputeClaim,
    Reason,
    verify_dispute_answer,
    verify_dispute_claim,
)
from ledger.equivocation import EquivocationProof, verify_equivocation
from ledger.errors import DifferenceFound
from ledger.policy import Policy
from ledger.schema import rejected, voucher
from ledger.schema_closing import closing, dispute, equivocation, one_sided
from ledger.voucher import Voucher, VoucherKey, verify_voucher, voucher_hash

__all__ = [
    "check_disputes",
    "check_equivocations",
    "check_one_sided",
    "check_rejected",
]

_RECOMPUTED = re.compile(r"recomputed ([0-9a-f]{32}|nothing) by [^\n]+")
_REVERSED = re.compile(r"voucher reversed by (dispute|audit) ([0-9]{1,18})")
_MAX_RAW = 8192  # of refused bytes; longer ones are cut


def check_disputes(connection: Connection, books: Books) -> None:
    """Check every dispute's papers, instants and verdict."""
    statement = (
        select(
            dispute,
            closing.c.content_hash,
            closing.c.policy_hash,
            closing.c.closed_us,
            closing.c.release_due_us,
        )
        .join(closing, closing.c.voucher_id == dispute.c.voucher_id, isouter=True)
        .order_by(dispute.c.id)
    )
    rows = connection.execute(statement).all()
    for row in rows:
        name = f"dispute {row.id}"
        filed = books.vouchers.get(row.voucher_id)
        terms = books.policies.get(row.policy_hash)
        if filed is None or terms is None:
            raise DifferenceFound(f"{name}: there is no such closed voucher")
        with naming(name):
            claim = verify_dispute_claim(row.claim, row.claim_signature)
        _check_claim(name, row, claim, filed, books)
        _check_answer(name, row, claim, books)
        _check_instants(name, row, terms)
        _check_verdict(name, row, claim, terms)
        books.disputes[row.voucher_id].append(
            DisputeFound(
                id=row.id,
                is_pending=row.state in {"open", "answered"},
                is_lost_by_worker=row.state == "upheld"
                and claim.reason is Reason.WRONG_RESULTS,
                decided_us=row.decided_us,
            )
        )
        books.report.disputes += 1
    _check_reversed(rows, books)


def _check_claim(
    name: str, row: Row[Any], claim: DisputeClaim, filed: Filed, books: Books
) -> None:
    parties = (filed.backbone, filed.worker)
    if claim.reason is Reason.UNKNOWN_ROWS:
        parties = parties[::-1]
    for what, stored, derived in (
        ("network", claim.network, books.owner.network),
        ("voucher", claim.voucher, row.content_hash),
        ("claimant", claim.opener, parties[0]),
        ("opener", row.opener, parties[0]),
        ("respondent", row.respondent, parties[1]),
        ("reason", row.reason, claim.reason.name.lower()),
        ("serving", row.serving, claim.leaf.serving),
    ):
        same(name, what, stored, derived)
    stored_leaf = books.leaves.get((filed.id, claim.leaf.serving))
    if books.is_full and filed.id not in books.pruned_us:
        same(name, "leaf", claim.leaf.pack(), stored_leaf)


def _check_answer(name: str, row: Row[Any], claim: DisputeClaim, books: Books) -> None:
    parts = (row.answer, row.answer_signature, row.answered_us)
    if None in parts:
        same(name, "answer", parts, (None, None, None))
        return
    with naming(name):
        answer = verify_dispute_answer(row.answer, row.answer_signature)
        answer.check(claim)
    same(name, "answer's network", answer.network, books.owner.network)
    same(name, "answer is by", answer.respondent, row.respondent)


def _check_instants(name: str, row: Row[Any], terms: Policy) -> None:
    same(name, "answer due", row.answer_due_us, row.opened_us + terms.answer_us)
    if not row.closed_us <= row.opened_us < row.release_due_us:
        raise DifferenceFound(f"{name}: opened outside of its voucher's window")
    begun_us = row.opened_us
    if row.answered_us is not None:
        if not row.opened_us <= row.answered_us < row.answer_due_us:
            raise DifferenceFound(f"{name}: answered too late")
        begun_us = row.answered_us
    is_decided = row.state in {"upheld", "dismissed"}
    same(name, "decided", row.decided_us is not None, is_decided)
    if is_decided and row.decided_us < begun_us:
        raise DifferenceFound(f"{name}: decided before it was answered")


def _check_verdict(
    name: str, row: Row[Any], claim: DisputeClaim, terms: Policy
) -> None:
    """Check that state and verdict follow from the papers and the clock."""
    against_worker = claim.reason is Reason.WRONG_RESULTS
    is_answered = row.answer is not None
    recomputed = _RECOMPUTED.fullmatch(row.verdict)
    if row.state in {"open", "answered"}:
        found = (row.state, row.verdict, is_answered <= against_worker)
        wanted = ("answered" if is_answered else "open", "", True)
        same(name, "state and verdict", found, wanted)
        return
    if row.verdict == "no answer in time":
        follows = not is_answered and row.decided_us >= row.answer_due_us
        state = "upheld"
    elif row.verdict == "no referee in time":
        due_us = (row.answered_us or 0) + terms.answer_us
        follows = is_answered and against_worker and row.decided_us >= due_us
        state = "dismissed"
    elif row.verdict == "the rows were opened":
        follows = not against_worker and row.decided_us == row.answered_us
        state = "dismissed"
    elif recomputed:
        follows = against_worker
        is_right = recomputed[1] == claim.leaf.out_hash.hex()
        state = "dismissed" if is_right else "upheld"
    else:
        follows = _REVERSED.fullmatch(row.verdict) is not None
        state = "dismissed"
    holds(name, f"verdict {row.verdict[:40]!r} can be", follows)
    same(name, "state", row.state, state)


def _check_reversed(rows: Iterable[Row[Any]], books: Books) -> None:
    """Check that what ended with another dispute ended with one that was lost."""
    for row in rows:
        ended = _REVERSED.fullmatch(row.verdict)
        if ended is None:
            continue
        lost = {
            (each.by, each.id, each.decided_us)
            for each in books.disputes[row.voucher_id]
            if each.is_lost_by_worker
        }
        decisive = (ended[1], int(ended[2]), row.decided_us)
        holds(f"dispute {row.id}", "it was ended so", decisive in lost)


def check_equivocations(connection: Connection, books: Books) -> None:
    """Check every proof that somebody signed two vouchers of one number."""
    for row in connection.execute(select(equivocation)):
        name = f"equivocation {row.digest[:4].hex()}"
        proof = EquivocationProof(
            row.signer,
            row.first_raw,
            row.first_signature,
            row.second_raw,
            row.second_signature,
        )
        with naming(name):
            proven = verify_equivocation(proof, books.owner.network)
        same(name, "digest", row.digest, proof.name)
        for column in ("worker", "backbone", "tab", "price_epoch"):
            same(name, column, getattr(row, column), getattr(proven.key, column))
        same(name, "number", row.number, proven.number)
        if proven.is_worker:
            books.equivocations[proven.signer].append(row.seen_us)
        books.report.equivocations += 1


def check_one_sided(connection: Connection, books: Books) -> None:
    """Check finals that only their backbone signed, and what became of them."""
    for row in connection.execute(select(one_sided)):
        name = f"one-sided voucher {row.content_hash[:4].hex()}"
        with naming(name):
            claimed = Voucher.parse(row.raw)
            verify_voucher(row.raw, row.backbone_signature, claimed.backbone)
        for column in (
            "worker",
            "backbone",
            "tab",
            "price_epoch",
            "number",
            "amount_uc",
        ):
            same(name, column, getattr(row, column), getattr(claimed, column))
        same(name, "hash", row.content_hash, voucher_hash(row.raw))
        same(name, "network", claimed.network, books.owner.network)
        holds(name, "it is final", claimed.final)
        closed = books.closed.get(_voucher_of(connection, claimed.key))
        if row.state == "held":
            holds(name, "its key is open", closed is None)
        else:
            is_signed = closed is not None and closed.content_hash == row.content_hash
            same(name, "state", row.state, "signed" if is_signed else "expired")
            same(name, "leaves kept", len(row.leaves), 0)
        books.report.one_sided += 1


def _voucher_of(connection: Connection, key: VoucherKey) -> int:
    """Return the row id of a key's voucher, -1 if there is none."""
    found = connection.execute(
        select(voucher.c.id).where(
            voucher.c.worker == key.worker,
            voucher.c.backbone == key.backbone,
            voucher.c.tab == key.tab,
            voucher.c.price_epoch == key.price_epoch,
        )
    ).scalar_one_or_none()
    return -1 if found is None else int(found)


def check_rejected(connection: Connection, books: Books) -> None:
    """Check that what was refused is named by its bytes, where they are whole."""
    for row in connection.execute(select(rejected)):
        if len(row.raw) < _MAX_RAW:
            digest = sha256(row.raw + row.worker_signature + row.backbone_signature)
            name = f"refused voucher {row.digest[:4].hex()}"
            same(name, "digest", row.digest, digest.digest())
            if row.worker:  # put down to somebody, so the bytes must say so
                with naming(name):
                    claimed = Voucher.parse(row.raw)
                for column in ("worker", "backbone", "amount_uc"):
                    same(name, column, getattr(row, column), getattr(claimed, column))
        books.report.rejected += 1
