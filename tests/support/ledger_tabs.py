"""A tab as histories of a ledger move it: both sides, its grant, its money."""

import dataclasses

from ledger.voucher import SignedVoucher
from tests.support.ledger_world import TabSide
from tests.support.money_model import Grant, Key

__all__ = ["BASE_UC", "Tab"]

BASE_UC = 50_000


@dataclasses.dataclass
class Tab:
    """A tab of both sides, its grant and its money."""

    side: TabSide
    grant: Grant
    key: Key
    half: tuple[SignedVoucher, int] | None = None  # waits for the worker; its amount
    is_over: bool = False  # no further step with its half
    n_next: int = 0

    def trial(self) -> "Tab":
        """A copy to make a voucher of that will be refused."""
        side = dataclasses.replace(self.side, leaves=dict(self.side.leaves))
        side.tally = self.side.tally.copy()
        return dataclasses.replace(self, side=side)

    def servings(self, n: int) -> tuple[tuple[int, ...], int]:
        """The next `n` serving numbers and what they cost."""
        numbers = tuple(range(self.n_next, self.n_next + n))
        self.n_next += n + 1  # one in between was never accepted
        return numbers, sum(map(price_of, numbers))


def price_of(serving: int) -> int:
    """What `TabSide.leaf` of a serving costs; expert 1/3 half as much again."""
    is_scarce = (serving % 3, serving % 5) == (1, 3)
    return (serving % 4 + 1) * (BASE_UC * 3 // 2 if is_scarce else BASE_UC)
