"""Micro-credits: one bounded integer unit, shown as decimals, split without loss.

Contract: money is an `int` of micro-credits (1 credit = 1,000,000 uc). One leaf or
voucher is bounded by `MAX_AMOUNT_UC` (2^53 - 1, exact in every JSON reader), a sum by
`MAX_SUM_UC` (2^63 - 1). There is no float and no Decimal; sums are made in Python.
"""

import re
from collections.abc import Mapping

from ledger.errors import AmountRefused

__all__ = [
    "MAX_AMOUNT_UC",
    "MAX_SUM_UC",
    "UC_PER_CREDIT",
    "check_amount",
    "format_credits",
    "parse_credits",
    "split_by_largest_remainder",
]

UC_PER_CREDIT = 1_000_000
MAX_AMOUNT_UC = 2**53 - 1
MAX_SUM_UC = 2**63 - 1
_CREDITS = re.compile(r"(\d{1,10})(?:\.(\d{1,6}))?", re.ASCII)


def check_amount(amount_uc: int, *, peer: bytes | None = None) -> int:
    """Return `amount_uc` if it is an integer in [0, 2^53).

    Raises:
        AmountRefused: it is not.
    """
    if type(amount_uc) is not int or not 0 <= amount_uc <= MAX_AMOUNT_UC:
        raise AmountRefused(f"amount of {amount_uc!r} micro-credits", peer=peer)
    return amount_uc


def format_credits(amount_uc: int) -> str:
    """Write micro-credits as a decimal string of credits with six places."""
    sign = "-" if amount_uc < 0 else ""
    whole, part = divmod(abs(amount_uc), UC_PER_CREDIT)
    return f"{sign}{whole}.{part:06d}"


def parse_credits(text: str) -> int:
    """Return the micro-credits of a decimal number of credits, exactly.

    Raises:
        AmountRefused: no such number, more than six places, or out of bounds.
    """
    match = _CREDITS.fullmatch(text.strip())
    if match is None:
        raise AmountRefused(f"{text[:40]!r} is no number of credits such as 12.5")
    part = (match.group(2) or "").ljust(6, "0")
    return check_amount(int(match.group(1)) * UC_PER_CREDIT + int(part))


def split_by_largest_remainder(
    pool_uc: int, weights: Mapping[bytes, int]
) -> dict[bytes, int]:
    """Split a pool in proportion to integer weights; the shares sum to the pool.

    Each share is rounded down; what remains goes, one micro-credit each, to the
    largest remainders, ties to the smaller key (Hamilton's method).

    Raises:
        AmountRefused: a negative pool or weight, or no positive weight.
    """
    total = sum(weights.values())
    if pool_uc < 0 or total <= 0 or min(weights.values()) < 0:
        raise AmountRefused(f"cannot split {pool_uc} by weights of sum {total}")
    shares = {key: pool_uc * weight // total for key, weight in weights.items()}
    by_remainder = sorted(
        weights, key=lambda key: (-(pool_uc * weights[key] % total), key)
    )
    for key in by_remainder[: pool_uc - sum(shares.values())]:
        shares[key] += 1
    return shares
