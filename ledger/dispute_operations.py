"""The operations by which disputes and proofs of equivocation reach a ledger.

Contract: see `ledger.office` and `ledger.operations`. Papers come as hex of the bytes
as received, with their signature; what is answered names no opened bytes. Opening and
answering move nothing; a judgement and a report of equivocation may take money, and
without `commit` only say what they would do.
"""

from collections.abc import Mapping

from ledger.dispute_papers import MAX_PAPER_BYTES
from ledger.dispute_rows import Dispute, dispute_by_id
from ledger.disputes import answer_dispute, judge_dispute, open_dispute, weigh_dispute
from ledger.equivocation import MAX_PROOF_BYTES, EquivocationProof
from ledger.errors import OperationRefused
from ledger.keys import SIGNATURE_BYTES
from ledger.office import Office, Operation
from ledger.params import Params
from ledger.penalties import penalty_of, record_equivocation

__all__ = ["DISPUTE_OPERATIONS", "dispute_document"]

_HASH_BYTES = 16


def dispute_document(found: Dispute) -> dict[str, object]:
    """Return a dispute as JSON values, without its papers."""
    return {
        "id": found.id,
        "state": found.state.value,
        "reason": found.reason,
        "voucher": found.voucher_hash.hex(),
        "serving": found.serving,
        "worker": found.worker.hex(),
        "backbone": found.backbone.hex(),
        "opened_by": "backbone" if found.is_against_worker else "worker",
        "opened_us": found.opened_us,
        "answer_due_us": found.answer_due_us,
        "answered_us": found.answered_us,
        "judge_due_us": found.judge_due_us,
        "decided_us": found.decided_us,
        "verdict": found.verdict,
    }


def _open(office: Office, params: Mapping[str, object]) -> Mapping[str, object]:
    """Take a signed claim: {claim, signature}."""
    reader = Params(params)
    raw = reader.raw("claim", max_bytes=MAX_PAPER_BYTES)
    signature = reader.raw("signature", SIGNATURE_BYTES)
    reader.done()
    return dispute_document(open_dispute(office.desk, raw, signature))


def _answer(office: Office, params: Mapping[str, object]) -> Mapping[str, object]:
    """Take a signed answer: {answer, signature}."""
    reader = Params(params)
    raw = reader.raw("answer", max_bytes=MAX_PAPER_BYTES)
    signature = reader.raw("signature", SIGNATURE_BYTES)
    reader.done()
    return dispute_document(answer_dispute(office.desk, raw, signature))


def _judge(office: Office, params: Mapping[str, object]) -> Mapping[str, object]:
    """Decide by what a referee found: {id, recomputed, referee, commit}.

    `recomputed` is the hash of the results in hex, empty where the rows give none.
    """
    reader = Params(params)
    number = reader.whole("id", at_least=1)
    recomputed = reader.raw("recomputed", max_bytes=_HASH_BYTES) or None
    referee = reader.text("referee", max_chars=80)
    commit = reader.flag("commit")
    reader.done()
    if recomputed is not None and len(recomputed) != _HASH_BYTES:
        raise OperationRefused(
            f"recomputed is {recomputed.hex()}, not {_HASH_BYTES} bytes"
        )
    desk = office.desk
    judgement = weigh_dispute(desk, number, recomputed)
    found = (
        judge_dispute(desk, number, recomputed, referee)
        if commit
        else dispute_by_id(desk.connection, number)
    )
    return {
        "committed": commit,
        "outcome": judgement.outcome.value,
        "reversed_uc": judgement.reversed_uc,
        "forfeited_uc": judgement.forfeited_uc,
        "dispute": dispute_document(found),
    }


def _report(office: Office, params: Mapping[str, object]) -> Mapping[str, object]:
    """Take a proof of equivocation: {proof, commit}."""
    reader = Params(params)
    raw = reader.raw("proof", max_bytes=MAX_PROOF_BYTES)
    commit = reader.flag("commit")
    reader.done()
    proof = EquivocationProof.parse(raw)
    take = record_equivocation if commit else penalty_of
    penalty = take(office.desk, proof)
    return {
        "committed": commit,
        "known": penalty.is_known,
        "proof": proof.name.hex(),
        "signer": proof.signer.hex(),
        "signer_is": "worker" if penalty.found.is_worker else "backbone",
        "tab": penalty.found.key.tab.hex(),
        "number": penalty.found.number,
        "holdbacks": penalty.n_holdbacks,
        "forfeited_uc": penalty.amount_uc,
    }


DISPUTE_OPERATIONS: dict[str, Operation] = {
    "dispute.open": _open,
    "dispute.answer": _answer,
    "dispute.judge": _judge,
    "equivocation.report": _report,
}
