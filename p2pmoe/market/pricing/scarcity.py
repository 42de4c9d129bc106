"""How scarce an expert is, and what multiplier follows: integers alone.

    demand       q   an expert's paid rows as a multiple of the mean, Q16.16
    coverage     R   live replicas by failure domain, per mille
    target       T = max(2, ceil(q / 8)), at most 64 replicas
    scarcity     s = max(T, q / 8) / max(R, 1/2)
    ideal        m* = clip(sqrt(s), 1/2, 4)
    multiplier   m moves to m* by at most a twentieth in an epoch
    price        p = P0 m / M, rounded down

M is the mean of m over paid rows, but no less than its mean over the experts that are
held. So the price of a mean paid row is P0 at most, however scarce everything is; among
experts of equal demand the rarest is paid most. Without the second mean, whoever pays
itself for rows of a cheap expert would raise all prices (ADR 49). A target stays while
the demand is within 15 % of what asks for it: else an expert at the border would be
paid in turns.

The floor is 2 for every expert: whether a backbone has a disk is its own word, and no
money follows from what a backbone says alone.

Pure. Source: design/06, "Price"; research part R4; ADR 49.
"""

from collections.abc import Collection, Mapping, Sequence
from math import isqrt

from ledger.prices import ONE_Q16
from p2pmoe.market.coverage import FLOOR_WITHOUT_DISK, FULL_PERMILLE, MAX_TARGET
from p2pmoe.market.demand import REPLICA_SHARE

__all__ = [
    "MAX_MULTIPLIER",
    "MIN_MULTIPLIER",
    "STEP_PARTS",
    "demands",
    "ideal_multiplier",
    "mean_price",
    "moved",
    "normalised",
    "scarcity",
    "steady_target",
    "target_of",
]

MIN_MULTIPLIER = ONE_Q16 // 2
MAX_MULTIPLIER = 4 * ONE_Q16
STEP_PARTS = 20  # a multiplier moves by one of its twenty parts at most
_EVEN_PERCENT = 5  # short profiles lie: a share of demand is spread over all
_STEADY_PERCENT = 15
_REPLICA_DEMAND = int(REPLICA_SHARE) * ONE_Q16  # that one replica bears
_LEAST_PERMILLE = FULL_PERMILLE // 2


def demands(rows: Mapping[int, int], experts: Sequence[int]) -> dict[int, int]:
    """Return q of each expert, Q16.16, from paid rows in any unit; all 1 if none."""
    total = sum(rows.get(expert, 0) for expert in experts)
    if total <= 0:
        return dict.fromkeys(experts, ONE_Q16)
    even = ONE_Q16 * _EVEN_PERCENT // 100
    scale = (ONE_Q16 - even) * len(experts)
    return {expert: even + rows.get(expert, 0) * scale // total for expert in experts}


def target_of(demand: int) -> int:
    """Return T in replicas."""
    wanted = -(-demand // _REPLICA_DEMAND)
    return max(FLOOR_WITHOUT_DISK, min(MAX_TARGET, wanted))


def steady_target(before: int, demand: int) -> int:
    """Return T, which is still the one before if the demand is about that."""
    least = target_of(demand * (100 - _STEADY_PERCENT) // 100)
    most = target_of(demand * (100 + _STEADY_PERCENT) // 100)
    return before if least <= before <= most else target_of(demand)


def scarcity(target: int, demand: int, coverage_permille: int) -> int:
    """Return s, Q16.16. Above a target of 64 replicas it is the load that counts."""
    wanted = max(target * ONE_Q16, demand // int(REPLICA_SHARE))
    return wanted * FULL_PERMILLE // max(coverage_permille, _LEAST_PERMILLE)


def ideal_multiplier(scarce: int) -> int:
    """Return m* of a scarcity, both Q16.16."""
    return max(MIN_MULTIPLIER, min(MAX_MULTIPLIER, isqrt(scarce * ONE_Q16)))


def moved(multiplier: int, ideal: int) -> int:
    """Return the multiplier of the next epoch: at most a twentieth nearer to m*."""
    step = multiplier // STEP_PARTS
    return max(multiplier - step, min(multiplier + step, ideal))


def normalised(
    multipliers: Mapping[int, int], rows: Mapping[int, int], held: Collection[int]
) -> dict[int, int]:
    """Return m / M of each expert, Q16.16, rounded down: what a price table says.

    `held` are the experts that anybody holds; without any paid rows all weigh alike.
    """
    weights = _weights(multipliers, rows)
    mean = (
        sum(weights[expert] * m for expert, m in multipliers.items()),
        sum(weights.values()),
    )
    plain = (sum(multipliers[expert] for expert in held), len(held))
    if plain[0] * mean[1] > mean[0] * plain[1]:
        mean = plain
    if not mean[0]:
        return {}
    return {e: m * mean[1] * ONE_Q16 // mean[0] for e, m in multipliers.items()}


def mean_price(table: Mapping[int, int], rows: Mapping[int, int]) -> int:
    """Return what a mean paid row costs by a table, in Q16.16 of the base price."""
    weights = _weights(table, rows)
    total = sum(weights.values())
    return sum(weights[e] * m for e, m in table.items()) // total if total else 0


def _weights(experts: Mapping[int, int], rows: Mapping[int, int]) -> Mapping[int, int]:
    weights = {expert: rows.get(expert, 0) for expert in experts}
    return weights if any(weights.values()) else dict.fromkeys(experts, 1)
