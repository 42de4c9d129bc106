"""What each step of an answer cost, as the backbone tells it (`"explain": true`).

A step gave an accepted block: one token or several, the first a prompt's too; passes of
the lane led to it. Numbers come from outside: what is no number of its kind is an
`ApiError`, what is missing is 0.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from p2pmoe.client.completions import ApiError
from p2pmoe.passes.documents import PassUnreadable, read_pass
from p2pmoe.passes.values import PassTrace

__all__ = ["StepCost", "read_passes", "read_step_costs", "total_cost"]

_MAX_STEPS = 1 << 20
_TIERS = ("ram", "disk", "hub", "edge")
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """Expert calls by tier, seconds, waits for the network, page faults and bytes."""

    ram: int = 0
    disk: int = 0
    hub: int = 0
    edge: int = 0
    cache_hits: int = 0  # of the calls from disk
    dropped_calls: int = 0
    round_trips: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    read_bytes: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    wait_s: float = 0.0


def read_step_costs(extension: Mapping[str, Any] | None) -> tuple[StepCost, ...]:
    """Return the steps that a chunk's `p2pmoe` object tells of; ApiError."""
    steps = (extension or {}).get("steps", [])
    if not isinstance(steps, list) or len(steps) > _MAX_STEPS:
        raise ApiError("the backbone's figures of its steps are no list")
    return tuple(_cost(step) for step in steps)


def read_passes(extension: Mapping[str, Any] | None) -> tuple[PassTrace, ...]:
    """Return the passes that a chunk's `p2pmoe` object tells of; ApiError."""
    passes = (extension or {}).get("passes", [])
    if not isinstance(passes, list) or len(passes) > _MAX_STEPS:
        raise ApiError("the backbone's figures of its passes are no list")
    try:
        return tuple(map(read_pass, passes))
    except PassUnreadable as error:
        raise ApiError(f"the backbone's figures cannot be used: {error}") from error


def total_cost(costs: Iterable[StepCost]) -> StepCost:
    """Return the sum of steps."""
    sums = [sum(column) for column in zip(*map(astuple, costs), strict=True)]
    names = StepCost.__dataclass_fields__
    return StepCost(**dict(zip(names, sums, strict=False)))


def _cost(step: object) -> StepCost:
    if not isinstance(step, Mapping):
        raise ApiError("the backbone's figures of a step are no object")
    calls = step.get("calls", {})
    if not isinstance(calls, Mapping):
        raise ApiError("the backbone's expert calls of a step are no object")
    found: dict[str, Any] = {tier: _count(calls, tier) for tier in _TIERS}
    for name in StepCost.__dataclass_fields__:
        if name in {"seconds", "wait_s"}:
            found[name] = _seconds(step, name)
        elif name not in _TIERS:
            found[name] = _count(step, name)
    return StepCost(**found)


def _count(values: Mapping[str, Any], name: str) -> int:
    value = values.get(name, 0)
    if not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise ApiError(f"the backbone's figure {name} is no count")
    return int(value)


def _seconds(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name, 0.0)
    if not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        raise ApiError(f"the backbone's figure {name} is no time")
    return float(value) if math.isfinite(value) else 0.0
