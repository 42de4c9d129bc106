"""One grant as this side uses it: what was claimed under it, and what is left.

The sum of what is claimed under a grant never passes its ceiling. Every serving is
counted when it is taken, and given back if it is never accepted, so `used_uc` is never
below what vouchers may come to claim.
"""

from dataclasses import dataclass

from ledger.grant import Grant
from ledger.prices import PriceTable

__all__ = ["Allowance"]


@dataclass(slots=True, kw_only=True, eq=False)
class Allowance:
    """A verified grant, its price table, and the micro-credits used of it."""

    grant: Grant
    name: bytes  # SHA-256 of the grant's bytes
    prices: PriceTable
    used_uc: int = 0

    @property
    def room_uc(self) -> int:
        """Micro-credits left below the ceiling."""
        return self.grant.ceiling_uc - self.used_uc

    def is_valid(self, wall_us: int) -> bool:
        """Say whether the grant has not expired."""
        return wall_us < self.grant.expiry_us
