"""The price tables that our accounts go by: the one in force, and a few before it.

Books are kept at the prices of their own epoch, and calls that were numbered in an
earlier one may still be answered: a table stays while anything needs it, and the last
three do in any case. State only.
"""

from collections.abc import Collection, Iterable

from ledger.prices import ONE_Q16, PriceTable
from p2pmoe.backbone.servings import Served, ServingSlot

__all__ = ["PriceTables"]

_KEPT = 3  # calls in flight may be of these


class PriceTables:
    """Tables by their epoch."""

    def __init__(self) -> None:
        """Begin without prices."""
        self.current: PriceTable | None = None
        self.current_hash = b""
        self._tables: dict[int, PriceTable] = {}
        self._top_uc = 0

    def take(self, prices: PriceTable) -> bool:
        """Take a table; return whether it is now in force and was not before."""
        if self.current is not None and prices.epoch < self.current.epoch:
            return False
        name = prices.content_hash
        if name == self.current_hash:
            return False
        self.current, self.current_hash = prices, name
        self._tables[prices.epoch] = prices
        highest = max((ONE_Q16, *prices.multipliers.values()))
        self._top_uc = prices.base_uc * highest >> 16
        return True

    def of(self, epoch: int) -> PriceTable:
        """Return the table of an epoch that was in force."""
        return self._tables[epoch]

    def is_current(self, slot: ServingSlot) -> bool:
        """Whether a slot was numbered at the prices in force."""
        return self.current is not None and slot.price_epoch == self.current.epoch

    def bound_uc(self, slot: ServingSlot) -> int:
        """Return the most that a slot can cost, without looking at its experts."""
        return slot.n_rows * self._top_uc

    def spare_uc(self, served: Served) -> int:
        """Return by how much the bound of an answer is above what it costs."""
        prices = self.current
        if prices is None or not prices.multipliers or not self.is_current(served.slot):
            return 0
        cost_uc = sum(
            len(result.call.rows) * prices.unit_price(served.layer, result.call.expert)
            for result in served.results
        )
        return max(0, self.bound_uc(served.slot) - cost_uc)

    def prune(
        self, in_use: Collection[int], of_books: Iterable[PriceTable]
    ) -> frozenset[bytes]:
        """Forget tables of epochs that nothing needs; return the hashes of those kept.

        Those that open books have are kept, also of an earlier run.
        """
        by_identity = {id(table): table for table in of_books}  # most share one
        newest = sorted(self._tables)[-_KEPT:]
        epochs = {*newest, *in_use, *(table.epoch for table in by_identity.values())}
        self._tables = {e: table for e, table in self._tables.items() if e in epochs}
        by_identity |= {id(table): table for table in self._tables.values()}
        return frozenset(table.content_hash for table in by_identity.values())
