"""A closed voucher, and the operations of a dispute about it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from ledger.accounts import AccountKind
from ledger.balances import balances
from ledger.closings import ClosedState, HoldbackState
from ledger.dispute_papers import DisputeAnswer, DisputeClaim
from ledger.schema_closing import closing
from ledger.store import Store
from tests.support.dispute_papers import signed_answer, signed_claim
from tests.support.ledger_world import HOUR_US, Party, TabSide, World

__all__ = [
    "answered",
    "closed_tab",
    "closing_of",
    "judged",
    "opened",
    "tend",
]


def closed_tab(
    world: World, store: Store, *, n_servings: int = 3, **terms: int
) -> TabSide:
    """A tab closed by its final voucher, a tenth held back for 60 hours."""
    world.now_us += 1  # a further policy is a later one
    policy = {"holdback_ppm": 100_000, "holdback_us": 60 * HOUR_US} | terms
    store.operate("policy.set", policy | {"commit": True}).result(60)
    tab = world.tab(store.grant(world.order()).result(60))
    assert tab.file(store, *range(n_servings), final=True).status == 0
    return tab


def opened(store: Store, claim: DisputeClaim, opener: Party) -> Mapping[str, Any]:
    """Hand a signed claim in."""
    raw, signature = signed_claim(claim, opener)
    params = {"claim": raw.hex(), "signature": signature.hex()}
    return store.operate("dispute.open", params).result(60)


def answered(store: Store, answer: DisputeAnswer, by: Party) -> Mapping[str, Any]:
    """Hand a signed answer in."""
    raw, signature = signed_answer(answer, by)
    params = {"answer": raw.hex(), "signature": signature.hex()}
    return store.operate("dispute.answer", params).result(60)


def judged(
    store: Store, number: int, recomputed: bytes | None, *, commit: bool = True
) -> Mapping[str, Any]:
    """Hand a referee's finding in."""
    params = {
        "id": number,
        "recomputed": (recomputed or b"").hex(),
        "referee": "numpy",
        "commit": commit,
    }
    return store.operate("dispute.judge", params).result(60)


def tend(store: Store) -> None:
    """Let everything happen that is due."""
    store.tend()


class Closing:
    """A row of `closing`, as the tests read it."""

    def __init__(self, row: Any) -> None:
        self.state = ClosedState(row.state)
        self.holdback = HoldbackState(row.holdback)
        self.released_us = row.released_us
        self.holdback_us = row.holdback_us


def closing_of(store: Store) -> Closing:
    """The one closing of the ledger."""
    with store.reader().session() as connection:
        return Closing(connection.execute(select(closing)).one())


def held(store: Store, kind: AccountKind) -> int:
    """What all accounts of a kind hold."""
    with store.reader().session() as connection:
        return sum(b.balance_uc for b in balances(connection) if b.kind == kind)
