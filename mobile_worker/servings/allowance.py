"""One grant as this side uses it: what was claimed under it, and what is left.

The sum of what is claimed under a grant never passes its ceiling. Every serving is
counted when it is taken, and given back if it is never accepted, so `used_uc` is never
below what vouchers may come to claim.
"""

import struct
from dataclasses import dataclass

from ledger.errors import FormatRefused
from ledger.grant import Grant
from ledger.prices import PriceTable

__all__ = ["Allowance", "GrantUse"]

_USE = struct.Struct(">32sqQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantUse:
    """What vouchers have claimed under a grant so far."""

    name: bytes  # SHA-256 of the grant's bytes
    claimed_uc: int
    expiry_us: int

    def pack(self) -> bytes:
        """Return the spool payload."""
        return _USE.pack(self.name, self.claimed_uc, self.expiry_us)

    @staticmethod
    def parse(raw: bytes) -> "GrantUse":
        """Read a spool payload back.

        Raises:
            FormatRefused: another length.
        """
        if len(raw) != _USE.size:
            raise FormatRefused(f"a use of a grant of {len(raw)} bytes")
        name, claimed_uc, expiry_us = _USE.unpack(raw)
        return GrantUse(name=name, claimed_uc=claimed_uc, expiry_us=expiry_us)


@dataclass(slots=True, kw_only=True, eq=False)
class Allowance:
    """A verified grant, its price table, and the micro-credits used of it."""

    grant: Grant
    name: bytes  # SHA-256 of the grant's bytes
    prices: PriceTable
    used_uc: int = 0
    claimed_uc: int = 0  # of it, in vouchers

    @property
    def room_uc(self) -> int:
        """Micro-credits left below the ceiling."""
        return self.grant.ceiling_uc - self.used_uc

    def is_valid(self, wall_us: int) -> bool:
        """Say whether the grant has not expired."""
        return wall_us < self.grant.expiry_us

    @property
    def use(self) -> GrantUse:
        """What is to be remembered of this grant."""
        return GrantUse(
            name=self.name,
            claimed_uc=self.claimed_uc,
            expiry_us=self.grant.expiry_us,
        )
