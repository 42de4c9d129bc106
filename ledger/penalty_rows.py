"""Proofs of equivocation as they lie in the ledger. Read-only."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from ledger.equivocation import EquivocationProof
from ledger.errors import NotFound
from ledger.schema_closing import equivocation

__all__ = ["KeptProof", "kept_proof", "kept_proofs"]

_MIN_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptProof:
    """A proof, and what it is about."""

    proof: EquivocationProof
    is_of_worker: bool  # else the backbone signed twice
    worker: bytes  # [32]
    backbone: bytes  # [32]
    tab: bytes  # [8]
    price_epoch: int
    number: int
    seen_us: int


def kept_proofs(
    connection: Connection, *, worker: bytes | None = None
) -> list[KeptProof]:
    """Return all proofs, or those about a worker's vouchers, the oldest first."""
    statement = select(equivocation).order_by(
        equivocation.c.seen_us, equivocation.c.digest
    )
    if worker is not None:
        statement = statement.where(equivocation.c.worker == worker)
    return [
        KeptProof(
            proof=EquivocationProof(
                row.signer,
                row.first_raw,
                row.first_signature,
                row.second_raw,
                row.second_signature,
            ),
            is_of_worker=row.signer == row.worker,
            worker=row.worker,
            backbone=row.backbone,
            tab=row.tab,
            price_epoch=row.price_epoch,
            number=row.number,
            seen_us=row.seen_us,
        )
        for row in connection.execute(statement)
    ]


def kept_proof(connection: Connection, digits: str) -> EquivocationProof:
    """Return the proof whose name begins with these hex digits.

    Raises:
        NotFound: none, or several, or fewer than 8 digits.
    """
    digests = connection.execute(select(equivocation.c.digest)).scalars()
    named = [digest for digest in digests if digest.hex().startswith(digits.lower())]
    if len(digits) < _MIN_DIGITS or len(named) != 1:
        raise NotFound(
            f"{len(named)} proofs begin with {digits[:64]!r}: give {_MIN_DIGITS} or "
            "more digits of one in p2pmoe ledger equivocation list"
        )
    [found] = [
        kept.proof for kept in kept_proofs(connection) if kept.proof.name == named[0]
    ]
    return found
