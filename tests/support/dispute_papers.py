"""Claims and answers about a serving whose rows and results are made up."""

from ledger.dispute_papers import (
    DisputeAnswer,
    DisputeClaim,
    Half,
    Opening,
    Reason,
    sign_dispute_answer,
    sign_dispute_claim,
)
from ledger.leaf import Leaf
from ledger.voucher import voucher_hash
from tests.support.ledger_world import Party, TabSide

__all__ = [
    "answer_of",
    "claim_of",
    "opened_results",
    "opened_rows",
    "signed_answer",
    "signed_claim",
]


def opened_rows(serving: int) -> Opening:
    """What the x_hash of `TabSide.leaf` is taken over."""
    return Opening(Half.ROWS, b"x%d" % serving)


def opened_results(serving: int) -> Opening:
    """What the out_hash of `TabSide.leaf` is taken over."""
    return Opening(Half.RESULTS, b"y%d" % serving)


def claim_of(
    tab: TabSide, serving: int, *, by_worker: bool = False, **changes: object
) -> DisputeClaim:
    """The claim of one side about a serving of the tab's newest voucher."""
    opener = tab.worker if by_worker else tab.backbone
    fields = {
        "network": tab.world.network.id,
        "voucher": voucher_hash(tab.previous.pack()),
        "reason": Reason.UNKNOWN_ROWS if by_worker else Reason.WRONG_RESULTS,
        "issued_us": tab.world.now_us,
        "leaf": Leaf.parse(tab.leaves[serving]),
        "opener": opener.id,
        "opening": (opened_results if by_worker else opened_rows)(serving),
    }
    return DisputeClaim(**{**fields, **changes})  # type: ignore[arg-type]


def answer_of(tab: TabSide, claim: DisputeClaim, **changes: object) -> DisputeAnswer:
    """The other side's answer to a claim."""
    by_worker = claim.opener == tab.backbone.id
    opened = opened_results if by_worker else opened_rows
    fields = {
        "network": claim.network,
        "claim": claim.content_hash,
        "issued_us": tab.world.now_us,
        "respondent": (tab.worker if by_worker else tab.backbone).id,
        "opening": opened(claim.leaf.serving),
    }
    return DisputeAnswer(**{**fields, **changes})  # type: ignore[arg-type]


def signed_claim(claim: DisputeClaim, opener: Party) -> tuple[bytes, bytes]:
    """A claim's bytes and signature."""
    raw = claim.pack()
    return raw, sign_dispute_claim(raw, opener.sign)


def signed_answer(answer: DisputeAnswer, respondent: Party) -> tuple[bytes, bytes]:
    """An answer's bytes and signature."""
    raw = answer.pack()
    return raw, sign_dispute_answer(raw, respondent.sign)
