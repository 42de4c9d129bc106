"""Draw docs/explanation/prices.svg from the price core itself.

`python -m docs.plot_prices` writes it; the same program gives the same bytes.
"""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ledger.prices import ONE_Q16
from p2pmoe.market.pricing.drops import Drops
from p2pmoe.market.pricing.holdings import DomainHoldings, LeaseShare
from p2pmoe.market.pricing.model import ModelPrices, flat_rows
from p2pmoe.market.pricing.scarcity import ideal_multiplier, scarcity

PATH = Path(__file__).resolve().parent / "explanation" / "prices.svg"
_EPOCH_US = 600_000_000
_EXPERTS = (0, 1, 2, 3)
_LEAVES, _RETURNS, _END = 60, 90, 120  # epochs


def main() -> None:
    """Draw and write the picture."""
    mpl.rcParams["svg.hashsalt"] = "prices"
    mpl.rcParams["svg.fonttype"] = "none"
    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_ideal(left)
    _draw_course(right)
    figure.savefig(PATH, format="svg", metadata={"Date": None})


def _draw_ideal(axes: Axes) -> None:
    """Draw the ideal multiplier over coverage, by target."""
    coverages = range(0, 12_001, 50)
    for target, style in ((2, "-"), (4, "--"), (8, ":")):
        ideals = [
            ideal_multiplier(scarcity(target, ONE_Q16, permille)) / ONE_Q16
            for permille in coverages
        ]
        replicas = [permille / 1000 for permille in coverages]
        axes.plot(replicas, ideals, style, label=f"wanted: {target}", color="C0")
    axes.set(
        title="What scarcity asks for",
        xlabel="coverage in replicas",
        ylabel="multiplier m*",
        ylim=(0, 4.2),
    )
    axes.legend(frameon=False)


def _draw_course(axes: Axes) -> None:
    """Draw the price of an expert while two of its four domains are away."""
    for by_drop, label, style in (
        (False, "two of four domains are away", "-"),
        (True, "two domains drop it, and stay", "--"),
    ):
        axes.plot(range(_END), _course(by_drop=by_drop), style, label=label, color="C1")
    axes.axvspan(_LEAVES, _RETURNS, color="0.92")
    axes.set(
        title="One expert's price, epoch by epoch",
        xlabel="epochs of ten minutes",
        ylabel="price of a row, micro-credits",
        ylim=(0, 200),
    )
    axes.legend(frameon=False, loc="lower left")


def _course(*, by_drop: bool) -> list[int]:
    """Return the price of expert 0 in each epoch."""
    model = ModelPrices(
        rows=flat_rows(_EXPERTS),
        epoch=0,
        base_uc=100,
        as_of_us=0,
        holdings=DomainHoldings(Drops()),
    )
    prices = []
    for epoch in range(_END):
        is_away = _LEAVES <= epoch < _RETURNS
        for domain in range(4):
            held = frozenset(_EXPERTS)
            if is_away and domain < 2:
                held = held - {0} if by_drop else frozenset()
            share = LeaseShare(f"domain {domain}", 900, held)
            now_us = epoch * _EPOCH_US
            lease = f"lease {domain}".encode()
            model.holdings.change(lease, share, now_us, by_market=False)
            other = LeaseShare(f"always {domain}", 900, frozenset(_EXPERTS[1:]))
            model.holdings.change(b"o" + lease, other, now_us, by_market=False)
        counts = [(expert, 1000) for expert in _EXPERTS]
        model.paid.take((epoch, epoch + 1), counts, set(_EXPERTS))
        model.look((epoch + 1) * _EPOCH_US)
        prices.append(model.base_uc * model.rows[0].price // ONE_Q16)
    return prices


if __name__ == "__main__":
    main()
