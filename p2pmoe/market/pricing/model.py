"""The prices of one model: what is kept of it, and what becomes of it in an epoch.

All backbones of one manifest share its prices. In an epoch every multiplier moves
towards what the expert's scarcity asks for, and a new table is drawn up. If no price
would move by more than a fiftieth, nor that of a mean paid row by more than a
hundredth, the table stays, with its number: a new one costs every pair of worker and
backbone a new grant.

Pure. Source: design/06, "Price"; ADR 49.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ledger.prices import ONE_Q16
from p2pmoe.market.coverage import FLOOR_WITHOUT_DISK
from p2pmoe.market.pricing.drops import Drops
from p2pmoe.market.pricing.holdings import Coverage, DomainHoldings
from p2pmoe.market.pricing.paid import PaidDemand
from p2pmoe.market.pricing.scarcity import (
    demands,
    ideal_multiplier,
    mean_price,
    moved,
    normalised,
    scarcity,
    steady_target,
)

__all__ = ["ExpertRow", "ModelPrices", "flat_rows"]

_STILL_PARTS = 50
_MEAN_PARTS = 100
_NONE = Coverage()


@dataclass(frozen=True, slots=True)
class ExpertRow:
    """How one expert stood when its price was last looked at; the price follows.

    `units` is its moving sum of paid rows in 1/256; `target` is in replicas;
    `multiplier` is m and `price` m / M, both Q16.16.
    """

    expert: int  # packed
    units: int = 0
    target: int = FLOOR_WITHOUT_DISK
    coverage: Coverage = _NONE
    multiplier: int = ONE_Q16
    price: int = ONE_Q16


def flat_rows(experts: Iterable[int]) -> dict[int, ExpertRow]:
    """Return the rows of a model that is new: every expert costs the base price."""
    return {expert: ExpertRow(expert) for expert in sorted(experts)}


def _no_holdings() -> DomainHoldings:
    return DomainHoldings(Drops())


@dataclass(slots=True, kw_only=True, eq=False)
class ModelPrices:
    """One model's rows and what they are made of.

    `epoch` is the number of the table that holds; `as_of_us` when the rows were looked
    at last.
    """

    rows: dict[int, ExpertRow]
    epoch: int
    base_uc: int
    as_of_us: int
    paid: PaidDemand = field(default_factory=PaidDemand)
    holdings: DomainHoldings = field(default_factory=_no_holdings)

    @property
    def table(self) -> dict[int, int]:
        """Each expert's multiplier over the base price, Q16.16."""
        return {expert: row.price for expert, row in self.rows.items()}

    def look(self, wall_us: int) -> bool:
        """Look at demand and coverage as they are now; return whether prices moved."""
        self.paid.fade(wall_us - self.as_of_us)
        self.holdings.drops.prune(wall_us)
        self.as_of_us = wall_us
        seen = self._seen()
        units = self.paid.units
        held = [expert for expert, row in seen.items() if row.coverage.counted]
        drawn = normalised({e: row.multiplier for e, row in seen.items()}, units, held)
        told = self.table
        is_new = self._moves(told, drawn)
        prices = drawn if is_new else told
        self.rows = {
            expert: replace(row, price=prices[expert]) for expert, row in seen.items()
        }
        return is_new

    def _moves(self, told: Mapping[int, int], drawn: Mapping[int, int]) -> bool:
        """Whether a table is so far from what prices should be that it must go."""
        mean, drawn_mean = (mean_price(t, self.paid.units) for t in (told, drawn))
        if abs(mean - drawn_mean) * _MEAN_PARTS > drawn_mean:
            return True
        return any(
            abs(price - told[expert]) * _STILL_PARTS > told[expert]
            for expert, price in drawn.items()
        )

    def _seen(self) -> dict[int, ExpertRow]:
        """Return the rows with demand, target and coverage of now, multipliers moved.

        Their prices are not known yet.
        """
        coverage = self.holdings.look()
        units = self.paid.units
        demand = demands(units, list(self.rows))
        seen = {}
        for expert, row in self.rows.items():
            covered = coverage.get(expert, _NONE)
            target = steady_target(row.target, demand[expert])
            scarce = scarcity(target, demand[expert], covered.counted)
            seen[expert] = ExpertRow(
                expert=expert,
                units=units.get(expert, 0),
                target=target,
                coverage=covered,
                multiplier=moved(row.multiplier, ideal_multiplier(scarce)),
            )
        return seen
