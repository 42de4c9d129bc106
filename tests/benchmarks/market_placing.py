"""How good placements are: beside the best there is, and while many leave.

Both are counts in made-up worlds, the same in every run; nothing here is a time.
"""

from p2pmoe.market.assignment import Assignment
from tests.benchmarks.figures import Figure, figure
from tests.support.market_churn import MIXED, ChurnBook

__all__ = ["run"]

_N_WORLDS = 60
_N_SEEDS = 5
_N_DEVICES = 400
_LEAVES, _WITHIN_S, _FETCH_S = 0.3, 60, 3.0
_FLOOR = 2


def _oracle_ratios() -> list[float]:
    """Return useful coverage by that of the best placement; empty without scipy."""
    try:
        from tests.support.assignment_oracle import (
            best_coverage,
            small_worlds,
            useful_coverage,
        )
    except ImportError:
        return []
    ratios = []
    for wanted, devices in small_worlds(_N_WORLDS):
        best = best_coverage(wanted, devices)
        assignment = Assignment(b"bench")
        assignment.want(wanted)
        assignment.fill_all(devices)
        ratios.append((useful_coverage(assignment), best))
    pooled = sum(ours for ours, _ in ratios) / sum(best for _, best in ratios)
    return [pooled, min(ours / best for ours, best in ratios)]


def _leaving(seed: int) -> tuple[int, float]:
    """Return the worst expert's domains, and refetched shards by those that left."""
    world = ChurnBook(seed, n_layers=8, n_experts=48, fetch_s=_FETCH_S)
    world.join(MIXED, _N_DEVICES)
    world.run(20)
    world.fewest_since_last()
    before = world.n_fetched
    plan = world.leaving(_LEAVES, within_s=_WITHIN_S)
    gone = {name for names in plan.values() for name in names}
    lost = sum(len(world.devices[name].holds) for name in gone)
    world.run(_WITHIN_S, plan)
    world.run(20)
    return min(world.fewest_since_last()), (world.n_fetched - before) / lost


def run() -> list[Figure]:
    """Count; some 20 s."""
    figures = []
    ratios = _oracle_ratios()
    if ratios:
        name = f"useful coverage by the best, {_N_WORLDS} small worlds"
        figures.append(figure(name, "x", ratios[:1], at_least=0.98))
        figures.append(figure("the same, in the worst of them", "x", ratios[1:]))
    left = [_leaving(seed) for seed in range(_N_SEEDS)]
    name = f"fewest domains of an expert while {_LEAVES:.0%} leave in {_WITHIN_S} s"
    fewest = [float(domains) for domains, _ in left]
    figures.append(figure(name, "", [min(fewest)], at_least=_FLOOR))
    figures.append(
        figure("shards fetched for one that left", "x", [n for _, n in left])
    )
    return figures
