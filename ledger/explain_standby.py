"""Why standby pay moved: from the transfer down to each replica and its share.

Contract: as `ledger.explain`. Every amount is derived again from the market's paper; an
explanation that does not add up is a `DifferenceFound`, never an answer.
"""

from typing import Any

from sqlalchemy import Connection, Row, func, select

from ledger.accounts import TransferCode
from ledger.errors import DifferenceFound, RemoteError
from ledger.explanation import Explanation
from ledger.periods import format_us
from ledger.price_tables import format_q16
from ledger.schema import account
from ledger.schema_standby import payout_standby, standby_paper
from ledger.standby import StandbyPaper

__all__ = ["add_pot_filling", "add_standby", "add_standby_part"]


def add_pot_filling(told: Explanation, moved: Row[Any]) -> None:
    """Tell where the pot's money came from."""
    note = bytes(moved.reference).decode(errors="replace")
    of_fees = moved.code == TransferCode.ALLOT
    what = "fees that the operator gave" if of_fees else "credit that the operator gave"
    told.add(f"{what} for standby pay", note=note)


def add_standby(connection: Connection, told: Explanation, moved: Row[Any]) -> None:
    """Tell of the paper, and of each replica of the worker that it pays.

    Raises:
        DifferenceFound: the paper is missing, is none, or does not add up to it.
    """
    row = connection.execute(
        select(standby_paper).where(standby_paper.c.hash == moved.reference)
    ).one_or_none()
    if row is None:
        raise DifferenceFound("its standby paper is missing")
    worker = connection.execute(
        select(account.c.owner).where(account.c.id == moved.credit_id)
    ).scalar_one()
    try:
        paper = StandbyPaper.parse(row.raw)
    except RemoteError as exc:
        raise DifferenceFound(f"its standby paper: {exc}") from exc
    experts = {each.expert: each for each in paper.experts}
    _tell_paper(told, paper, row)
    total_uc = 0
    for held, amount_uc in paper.amounts():
        if held.worker != worker:
            continue
        scarcity = experts[held.expert]
        total_uc += amount_uc
        told.add(
            "replica",
            expert=f"{held.expert >> 16}/{held.expert & 0xFFFF}",
            domain=held.domain.hex(),
            share=format_q16(held.share),
            multiplier=format_q16(scarcity.multiplier),
            target=format_q16(scarcity.target),
            coverage=format_q16(scarcity.coverage),
            demand=scarcity.demand,
            amount_uc=amount_uc,
        )
    told.add("replicas", sum_uc=total_uc)
    if total_uc != moved.amount_uc:
        raise DifferenceFound(
            f"replicas of {total_uc} for a transfer of {moved.amount_uc}"
        )


def _tell_paper(told: Explanation, paper: StandbyPaper, row: Row[Any]) -> None:
    told.add(
        "standby paper",
        paper=row.hash.hex(),
        model=paper.manifest_hash.hex(),
        epoch=paper.epoch,
        start=format_us(paper.from_us),
        end=format_us(paper.to_us),
        booked=format_us(row.booked_us),
        prices=paper.price_table_hash.hex(),
        pot_uc=paper.pot_uc,
        experts=len(paper.experts),
        replicas=len(paper.holdings),
        weight=paper.weight,
        formula="pot_uc * multiplier * share * min(1, target / coverage) / weight",
    )


def add_standby_part(
    connection: Connection, told: Explanation, payout_id: bytes
) -> tuple[int, int]:
    """Tell how much of a payout is standby pay; return its parts and their sum."""
    n_parts, total = connection.execute(
        select(func.count(), func.sum(payout_standby.c.amount_uc)).where(
            payout_standby.c.payout_id == payout_id
        )
    ).one()
    total_uc = int(total or 0)
    if n_parts:
        told.add("standby pay", epochs=n_parts, sum_uc=total_uc)
    return n_parts, total_uc
