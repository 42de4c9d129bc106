"""What people are shown of prices: rows, layers, and why an expert costs what it costs.

Everything follows from the file of the market's prices, as of the last look at them:
nobody needs to be asked, and it can be worked out anew. Numbers of Q16.16 and per mille
are shown as exact decimals. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ledger.amounts import format_credits
from ledger.price_tables import format_q16
from ledger.prices import ONE_Q16
from p2pmoe.market.pricing.model import ExpertRow, ModelPrices
from p2pmoe.market.pricing.scarcity import (
    STEP_PARTS,
    demands,
    ideal_multiplier,
    scarcity,
)

__all__ = ["LayerCoverage", "layers_of", "price_rows", "reasons_of", "short_q16"]

_UNIT = 256  # of paid demand
_FULL = 1000  # per mille


@dataclass(frozen=True, slots=True)
class LayerCoverage:
    """How the experts of one layer are covered; coverage is per mille."""

    layer: int
    n_experts: int
    n_held: int  # that anybody holds
    n_short: int  # whose coverage is below their target
    least: int
    mean: int
    held_back: int  # counted for money, though dropped lately


def short_q16(value: int) -> str:
    """Write a Q16.16 number with three decimals, rounded to the nearest."""
    thousandths = (value * 1000 + ONE_Q16 // 2) // ONE_Q16
    return f"{thousandths // 1000}.{thousandths % 1000:03d}"


def price_rows(model: ModelPrices) -> list[dict[str, object]]:
    """Return a row for each expert, the dearest first."""
    rows = sorted(model.rows.values(), key=lambda row: (-row.price, row.expert))
    return [
        {
            "expert": _name(row.expert),
            "price_uc": model.base_uc * row.price // ONE_Q16,
            "price": format_credits(model.base_uc * row.price // ONE_Q16),
            "multiplier": short_q16(row.multiplier),
            "target": row.target,
            "coverage": _thousandths(row.coverage.counted),
            "live": _thousandths(row.coverage.live),
            "domains": row.coverage.n_domains,
            "paid_rows": row.units // _UNIT,
        }
        for row in rows
    ]


def layers_of(model: ModelPrices) -> list[LayerCoverage]:
    """Return the coverage of each layer, in order."""
    by_layer: dict[int, list[ExpertRow]] = {}
    for row in model.rows.values():
        by_layer.setdefault(row.expert >> 16, []).append(row)
    return [_layer(layer, rows) for layer, rows in sorted(by_layer.items())]


def reasons_of(model: ModelPrices, expert: int) -> dict[str, object]:
    """Return step by step what an expert's price follows from.

    Raises:
        KeyError: the model has no such expert.
    """
    row = model.rows[expert]
    units: Mapping[int, int] = {e: r.units for e, r in model.rows.items()}
    demand = demands(units, list(model.rows))[expert]
    scarce = scarcity(row.target, demand, row.coverage.counted)
    ideal = ideal_multiplier(scarce)
    return {
        "expert": _name(expert),
        "epoch": model.epoch,
        "paid_rows": row.units // _UNIT,
        "demand": short_q16(demand),
        "target": row.target,
        "live": _thousandths(row.coverage.live),
        "domains": row.coverage.n_domains,
        "dropped_lately": _thousandths(row.coverage.counted - row.coverage.live),
        "coverage": _thousandths(row.coverage.counted),
        "scarcity": short_q16(scarce),
        "ideal_multiplier": short_q16(ideal),
        "multiplier": short_q16(row.multiplier),
        "mean_multiplier": short_q16(row.multiplier * ONE_Q16 // max(row.price, 1)),
        "price_multiplier": format_q16(row.price),
        "base_uc": model.base_uc,
        "price_uc": model.base_uc * row.price // ONE_Q16,
        "price": format_credits(model.base_uc * row.price // ONE_Q16),
        "because": _because(row, ideal),
    }


def _because(row: ExpertRow, ideal: int) -> str:
    covered, wanted = row.coverage.counted, row.target * _FULL
    if not row.coverage.live:
        reason = "nobody holds it"
    elif covered < wanted:
        reason = f"it is held {_thousandths(covered)} times of {row.target} wanted"
    elif covered == wanted:
        reason = f"it is held as often as wanted, {row.target} times"
    else:
        reason = f"it is held {_thousandths(covered)} times, wanted are {row.target}"
    if row.coverage.counted > row.coverage.live:
        reason += ", what was dropped lately counted"
    if abs(ideal - row.multiplier) * STEP_PARTS > row.multiplier:
        way = "rises" if ideal > row.multiplier else "falls"
        reason += f"; its multiplier {way} by a twentieth an epoch"
    return reason


def _layer(layer: int, rows: Iterable[ExpertRow]) -> LayerCoverage:
    found = list(rows)
    counted = [row.coverage.counted for row in found]
    return LayerCoverage(
        layer=layer,
        n_experts=len(found),
        n_held=sum(row.coverage.live > 0 for row in found),
        n_short=sum(row.coverage.counted < row.target * _FULL for row in found),
        least=min(counted),
        mean=sum(counted) // len(counted),
        held_back=sum(row.coverage.counted - row.coverage.live for row in found),
    )


def _name(expert: int) -> str:
    return f"{expert >> 16}/{expert & 0xFFFF}"


def _thousandths(permille: int) -> str:
    return f"{permille // _FULL}.{permille % _FULL:03d}"
