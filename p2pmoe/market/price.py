"""A signed price table: what a row of each expert costs, and what the operator chose.

The form and the signature are the ledger's (ledger/prices.py). A table says for each
expert its multiplier over the base price; how multipliers come about is told in
`pricing/scarcity.py`. Pure but for the `sign` that is passed in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ledger.prices import PriceTable, sign_price_table
from p2pmoe.market.pricing.epochs import EPOCH_S

__all__ = ["DEFAULT_BASE_UC", "PriceSettings", "SignedPrices", "signed_prices"]

DEFAULT_BASE_UC = 100  # micro-credits a row: 10,000 rows cost one credit


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSettings:
    """What the operator chooses.

    base_uc: what a mean paid row costs. epoch_s: how long a table holds at least.
    standby_uc: what replicas get, in all, for being held through one epoch.
    """

    base_uc: int = DEFAULT_BASE_UC
    epoch_s: int = EPOCH_S
    standby_uc: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPrices:
    """A packed price table and the market's signature over it."""

    table: bytes
    signature: bytes
    epoch: int
    base_uc: int
    content_hash: bytes
    multipliers: Mapping[int, int] = field(repr=False)  # packed expert -> Q16.16


def signed_prices(table: PriceTable, sign: Callable[[bytes], bytes]) -> SignedPrices:
    """Return a table, packed and signed."""
    packed = table.pack()
    return SignedPrices(
        table=packed,
        signature=sign_price_table(packed, sign),
        epoch=table.epoch,
        base_uc=table.base_uc,
        content_hash=table.content_hash,
        multipliers=table.multipliers,
    )
