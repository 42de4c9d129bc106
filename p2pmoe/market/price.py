"""The price of one row of an expert: flat for now, one signed table for each manifest.

A table is made once for a manifest and stays, with its epoch, while the base price is
the same: grants and vouchers name it by its hash, and a market that restarts must go on
with the table it had. The form and the signature are the ledger's (ledger/prices.py).

Pure but for the `sign` that is passed in. The scarcity multipliers of design/06 come
into the same table; nothing else changes with them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ledger.prices import PriceTable, sign_price_table

__all__ = ["DEFAULT_BASE_UC", "SignedPrices", "flat_prices"]

DEFAULT_BASE_UC = 100  # micro-credits a row: 10,000 rows cost one credit


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPrices:
    """A packed price table and the market's signature over it."""

    table: bytes
    signature: bytes
    epoch: int
    base_uc: int


def flat_prices(
    network: bytes,
    manifest_hash: bytes,
    *,
    epoch: int,
    base_uc: int,
    sign: Callable[[bytes], bytes],
) -> SignedPrices:
    """Return the table in which a row of every expert costs `base_uc`.

    Raises:
        AmountRefused, FormatRefused: a value is out of the ledger's bounds.
    """
    table = PriceTable(
        network=network, manifest_hash=manifest_hash, epoch=epoch, base_uc=base_uc
    ).pack()
    signature = sign_price_table(table, sign)
    return SignedPrices(table=table, signature=signature, epoch=epoch, base_uc=base_uc)
