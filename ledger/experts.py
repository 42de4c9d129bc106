"""What leaves add up to, by expert: kept when the leaves themselves are pruned.

Contract: blocks of packed leaves go in, checked before by `ledger.tally`; each adds to
the servings and rows of its expert. `table` prices the rows, which for checked leaves
is the sum of their amounts. Counting costs a fraction of checking. Pure.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from ledger.leaf import LEAF_BYTES
from ledger.prices import PriceTable

__all__ = ["ExpertSum", "ExpertSums"]

_START, _END = 21, 27  # where a packed leaf has its layer, expert and rows


@dataclass(frozen=True, slots=True)
class ExpertSum:
    """One expert's part of a voucher."""

    layer: int
    expert: int
    servings: int
    rows: int
    amount_uc: int


class ExpertSums:
    """Servings and rows by expert, growing."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._sums: dict[bytes, tuple[int, int]] = {}  # layer | expert -> sums

    def add(self, block: bytes) -> Self:
        """Count a block of packed leaves."""
        kinds = Counter(
            block[start + _START : start + _END]
            for start in range(0, len(block), LEAF_BYTES)
        )
        for kind, n_leaves in kinds.items():
            servings, rows = self._sums.get(kind[:4], (0, 0))
            rows += n_leaves * int.from_bytes(kind[4:], "big")
            self._sums[kind[:4]] = servings + n_leaves, rows
        return self

    def rows(self) -> dict[tuple[int, int], int]:
        """Return the rows of each expert, by (layer, expert) in ascending order."""
        return {
            (int.from_bytes(kind[:2], "big"), int.from_bytes(kind[2:], "big")): rows
            for kind, (_, rows) in sorted(self._sums.items())
        }

    def table(self, prices: PriceTable) -> Iterator[ExpertSum]:
        """Yield each expert's sums in order of layer and expert."""
        for kind, (servings, rows) in sorted(self._sums.items()):
            layer = int.from_bytes(kind[:2], "big")
            expert = int.from_bytes(kind[2:], "big")
            amount_uc = rows * prices.unit_price(layer, expert)
            yield ExpertSum(layer, expert, servings, rows, amount_uc)
