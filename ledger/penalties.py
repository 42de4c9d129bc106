"""What proven equivocation costs: the proof is kept, the worker's holdbacks are lost.

Contract: as `ledger.settlement`. Where two filings of one key and number differ, a
proof against each signer of both is kept, with both bodies as received: one of each
number, and at most 256 of a signer that cost nothing: it could make any number of them.
Proofs found elsewhere are reported and checked the same. A worker that is proven loses
every holdback that is held at that moment, disputed vouchers' included; what it earns
later is not touched. A backbone has no holdback: its proof is for others to see.
"""

from dataclasses import dataclass

from sqlalchemy import insert, select

from ledger.claims import Claim
from ledger.desk import Desk
from ledger.equivocation import (
    EquivocationProof,
    Equivocator,
    equivocations,
    verify_equivocation,
)
from ledger.holdback import forfeit
from ledger.schema_closing import equivocation
from ledger.voucher import SignedVoucher, VoucherKey

__all__ = ["Penalty", "note_conflict", "penalty_of", "record_equivocation"]

_MAX_OF_SIGNER = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Penalty:
    """What a proof costs its signer."""

    proof: EquivocationProof
    found: Equivocator
    is_known: bool  # the signer is convicted of it already: nothing more is lost
    n_holdbacks: int
    amount_uc: int


def penalty_of(desk: Desk, proof: EquivocationProof) -> Penalty:
    """Check a proof and return what recording it would cost; changes nothing.

    Raises:
        ProofRefused, FormatRefused, AmountRefused, KeyRefused, SignatureRefused: it
            proves nothing.
    """
    found = verify_equivocation(proof, desk.owner.network)
    desk.write_out()
    n_kept, is_kept = _convictions(desk, found)
    is_due = found.is_worker and not is_kept
    held = desk.closings.held_of(proof.signer) if is_due else []
    # A proof that costs something is always kept: else a signer with nothing to lose
    # could fill its room beforehand, and never lose anything afterwards.
    return Penalty(
        proof=proof,
        found=found,
        is_known=is_kept or (n_kept >= _MAX_OF_SIGNER and not held),
        n_holdbacks=len(held),
        amount_uc=sum(state.held_uc for state in held),
    )


def record_equivocation(desk: Desk, proof: EquivocationProof) -> Penalty:
    """Keep a proof and take the holdbacks of a worker that it convicts.

    Raises:
        See `penalty_of`; nothing was changed.
    """
    penalty = penalty_of(desk, proof)
    if penalty.is_known:
        return penalty
    found = penalty.found
    desk.connection.execute(
        insert(equivocation).values(
            digest=proof.name,
            signer=proof.signer,
            worker=found.key.worker,
            backbone=found.key.backbone,
            tab=found.key.tab,
            price_epoch=found.key.price_epoch,
            number=found.number,
            first_raw=proof.first,
            first_signature=proof.first_signature,
            second_raw=proof.second,
            second_signature=proof.second_signature,
            seen_us=desk.now_us,
        )
    )
    if found.is_worker:
        for state in desk.closings.held_of(proof.signer):
            forfeit(desk, state)
    return penalty


def _convictions(desk: Desk, found: Equivocator) -> tuple[int, bool]:
    """Return how many proofs of the signer are kept, and whether one of this number."""
    kept = desk.connection.execute(
        select(
            equivocation.c.worker,
            equivocation.c.backbone,
            equivocation.c.tab,
            equivocation.c.price_epoch,
            equivocation.c.number,
        ).where(equivocation.c.signer == found.signer)
    ).all()
    key = found.key
    this = (key.worker, key.backbone, key.tab, key.price_epoch, found.number)
    return len(kept), this in {tuple(row) for row in kept}


def note_conflict(desk: Desk, claim: Claim) -> list[Penalty]:
    """Record what a refused claim proves together with what is stored of its key."""
    return [
        record_equivocation(desk, proof)
        for other in _of_same_key(desk, claim.voucher.key)
        for proof in equivocations(other, claim.signed)
    ]


def _of_same_key(desk: Desk, key: VoucherKey) -> list[SignedVoucher]:
    """Return the vouchers of a key whose bytes are kept: the newest, and a half."""
    found = []
    current = desk.head(key)
    if current is not None:
        found.append(current.signed)
    half = desk.halves.find(key)
    if half is not None:
        found.append(
            SignedVoucher(
                raw=half.raw,
                worker_signature=b"",
                backbone_signature=half.backbone_signature,
            )
        )
    return found
