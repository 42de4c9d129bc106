"""A backbone's and a worker's side of one tab, for tests of the accounts."""

import dataclasses

import numpy as np

from ledger.grant import Grant
from ledger.prices import PriceTable
from ledger.tally import TabTerms, Tally
from ledger.voucher import Voucher, sign_voucher
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.session.identity import Identity
from p2pmoe.backbone.outputs import CallResult
from p2pmoe.backbone.plan import ExpertRows
from p2pmoe.backbone.servings import Served, ServingSlot
from relay.keys import PeerId
from tests.support.money import Money

__all__ = [
    "GRANT",
    "GRANTS",
    "MONEY",
    "PRICES",
    "TERMS",
    "TabWorker",
    "X",
    "served",
]

MONEY = Money()
PRICES: PriceTable = MONEY.prices()
TERMS: TabTerms = MONEY.terms()
GRANT: Grant = MONEY.grant(PRICES)
GRANTS = frozenset({GRANT.content_hash})
X = np.linspace(-1, 1, 3 * 32, dtype=np.float32).reshape(3, 32)


def served(first: int, *calls: tuple[int, tuple[int, ...]]) -> Served:
    """Return an accepted answer: servings from `first`, calls of layer 1."""
    results = tuple(
        CallResult(
            call=ExpertRows(expert=expert, rows=rows),
            values=X[list(rows)],
            coded=bytes([expert]) * 16,
        )
        for expert, rows in calls
    )
    slot = ServingSlot(
        peer=PeerId(TERMS.worker),
        tab=TERMS.tab,
        first=first,
        n=len(calls),
        n_rows=sum(len(rows) for _, rows in calls),
        price_epoch=PRICES.epoch,
    )
    return Served(
        slot=slot,
        request=9,
        layer=1,
        nonce=b"n" * 8,
        rows=ExpertInput(coded=quantize_rows(X)),
        results=results,
    )


class TabWorker:
    """The other side: its own tally of what it was told is accepted."""

    def __init__(self) -> None:
        self.tally = Tally(TERMS, PRICES)
        self.last: Voucher | None = None

    def voucher(
        self,
        leaves: bytes,
        *,
        sign: Identity = MONEY.worker,
        grant: bytes = GRANT.content_hash,
        **changes: object,
    ) -> tuple[bytes, bytes]:
        """Return the next voucher over all leaves so far, and its signature."""
        self.tally.add(leaves)
        draft = self.tally.draft(self.last, grant_hash=grant, issued_us=5)
        voucher = dataclasses.replace(draft, **changes)
        self.last = draft
        raw = voucher.pack()
        return raw, sign_voucher(raw, sign.sign)
