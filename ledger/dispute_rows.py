"""Disputes as they lie in the ledger: what a row says, and how rows are found.

Contract: read-only. A dispute is about one leaf of a closed voucher and decides only
against its respondent:

    opener    reason         respondent   upheld means
    backbone  wrong_results  worker       the voucher is reversed, its holdback lost
    worker    unknown_rows   backbone     it would not show the rows: on record, no more

    open      -> answered    the other half was opened in time (wrong_results)
              -> dismissed   the rows were opened (unknown_rows)
              -> upheld      nothing was opened until `answer_due_us`
    answered  -> dismissed   no referee within as long a time again
    open, answered -> upheld | dismissed   the referee recomputed the leaf's results
                   -> dismissed            another dispute, or an audit, has reversed
                                           the voucher

Every decision's `verdict` is one of the texts made here, so that it can be derived
again from the papers and the instants.
"""

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ColumnElement, Connection, RowMapping, select

from ledger.dispute_papers import Reason
from ledger.errors import NotFound
from ledger.schema import voucher
from ledger.schema_closing import closing, dispute
from ledger.voucher import Voucher

__all__ = [
    "NOT_ANSWERED",
    "NOT_JUDGED",
    "REASON_NAMES",
    "ROWS_OPENED",
    "Dispute",
    "DisputeState",
    "Papers",
    "audit_verdict",
    "dispute_by_id",
    "disputed_voucher",
    "disputes_where",
    "papers_of",
    "recomputed_verdict",
    "reversed_verdict",
]

NOT_ANSWERED = "no answer in time"
NOT_JUDGED = "no referee in time"
ROWS_OPENED = "the rows were opened"
_PAPERS = ("claim", "claim_signature", "answer", "answer_signature")
REASON_NAMES = {reason: reason.name.lower() for reason in Reason}


class DisputeState(StrEnum):
    """Where a dispute stands."""

    OPEN = "open"
    ANSWERED = "answered"
    UPHELD = "upheld"
    DISMISSED = "dismissed"

    @property
    def is_pending(self) -> bool:
        """Whether it still keeps its voucher from being released."""
        return self in {DisputeState.OPEN, DisputeState.ANSWERED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispute:
    """One row but for its papers, which may be large, and whose voucher it is about."""

    id: int
    voucher_id: int
    voucher_hash: bytes  # [32] of the voucher that closed the tab
    worker: bytes  # [32]
    backbone: bytes  # [32]
    serving: int
    opener: bytes  # [32]
    respondent: bytes  # [32]
    reason: str
    opened_us: int
    answer_due_us: int
    answered_us: int | None
    state: DisputeState
    verdict: str
    decided_us: int | None

    @property
    def judge_due_us(self) -> int | None:
        """When an answered dispute ends without a referee."""
        if self.answered_us is None:
            return None
        return self.answered_us + self.answer_due_us - self.opened_us

    @property
    def is_against_worker(self) -> bool:
        """Whether the worker would lose the voucher by it."""
        return self.opener == self.backbone


@dataclass(frozen=True, slots=True, kw_only=True)
class Papers:
    """The signed papers of one dispute, as received."""

    claim: bytes
    claim_signature: bytes  # [64]
    answer: bytes | None
    answer_signature: bytes | None  # [64]


def recomputed_verdict(out_hash: bytes | None, referee: str) -> str:
    """Return what a referee's finding is written down as; None: nothing came out."""
    found = "nothing" if out_hash is None else out_hash.hex()
    return f"recomputed {found} by {referee}"


def reversed_verdict(decisive: int) -> str:
    """Return the verdict of a dispute whose voucher another one has reversed."""
    return f"voucher reversed by dispute {decisive}"


def audit_verdict(number: int) -> str:
    """Return the verdict of a dispute whose voucher an audit has reversed."""
    return f"voucher reversed by audit {number}"


def disputes_where(
    connection: Connection, *conditions: ColumnElement[bool], limit: int | None = None
) -> list[Dispute]:
    """Return the disputes that meet all conditions, in the order they were opened."""
    columns = [column for column in dispute.c if column.name not in _PAPERS]
    statement = (
        select(*columns, closing.c.content_hash, voucher.c.worker, voucher.c.backbone)
        .join(closing, closing.c.voucher_id == dispute.c.voucher_id)
        .join(voucher, voucher.c.id == dispute.c.voucher_id)
        .where(*conditions)
        .order_by(dispute.c.id)
        .limit(limit)
    )
    return [_dispute(row) for row in connection.execute(statement).mappings()]


def dispute_by_id(connection: Connection, number: int) -> Dispute:
    """Return one dispute.

    Raises:
        NotFound: there is none of this number.
    """
    found = disputes_where(connection, dispute.c.id == number)
    if not found:
        raise NotFound(f"there is no dispute {number}: see p2pmoe ledger dispute list")
    return found[0]


def papers_of(connection: Connection, number: int) -> Papers:
    """Return the papers of one dispute.

    Raises:
        NotFound: there is none of this number.
    """
    rows = connection.execute(
        select(*(dispute.c[name] for name in _PAPERS)).where(dispute.c.id == number)
    ).mappings()
    papers = rows.one_or_none()
    if papers is None:
        raise NotFound(f"there is no dispute {number}: see p2pmoe ledger dispute list")
    return Papers(**papers)


def disputed_voucher(connection: Connection, found: Dispute) -> Voucher:
    """Return the closed voucher that a dispute is about.

    Raises:
        NotFound: it is not there.
    """
    raw = connection.execute(
        select(voucher.c.raw).where(voucher.c.id == found.voucher_id)
    ).scalar_one_or_none()
    if raw is None:
        raise NotFound(f"voucher {found.voucher_hash.hex()[:8]} is not there")
    return Voucher.parse(raw)


def _dispute(row: RowMapping) -> Dispute:
    values = dict(row)
    values["voucher_hash"] = values.pop("content_hash")
    values["state"] = DisputeState(values["state"])
    return Dispute(**values)
