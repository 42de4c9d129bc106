"""Figures of steps come from outside: checked, and summed up."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.client.completions import ApiError
from p2pmoe.client.step_costs import (
    StepCost,
    read_passes,
    read_step_costs,
    total_cost,
)
from p2pmoe.passes.values import PassTrace

STEP = {
    "calls": {"ram": 3, "disk": 2, "hub": 1, "edge": 4},
    "seconds": 0.5,
    "wait_s": 0.25,
    "round_trips": 2,
    "n_rows": 1,
    "cache_hits": 1,
    "read_bytes": 4096,
    "minor_faults": 7,
    "major_faults": 1,
    "bytes_up": 10,
    "bytes_down": 20,
    "dropped_calls": 0,
}


def test_a_step_is_read() -> None:
    (cost,) = read_step_costs({"steps": [STEP]})
    assert (cost.ram, cost.disk, cost.hub, cost.edge) == (3, 2, 1, 4)
    assert (cost.seconds, cost.wait_s, cost.read_bytes) == (0.5, 0.25, 4096)
    assert read_step_costs(None) == read_step_costs({}) == ()
    assert read_step_costs({"steps": [{}]}) == (StepCost(),)


def test_passes_are_read() -> None:
    (told,) = read_passes({"passes": [{"start_s": 1.5, "seconds": 0.5, "trips": 2}]})
    assert told == PassTrace(start_s=1.5, seconds=0.5, trips=2)
    assert read_passes(None) == read_passes({}) == ()


@pytest.mark.parametrize("passes", [{}, 5, [5], [{"trips": -1}], [{"layers": [1]}]])
def test_what_are_no_passes_is_refused(passes: object) -> None:
    with pytest.raises(ApiError, match="the backbone's figures"):
        read_passes({"passes": passes})


def test_figures_are_the_engines_own() -> None:
    from dataclasses import asdict

    from p2pmoe.backbone.generation import StepFigures, TierCalls

    figures = StepFigures(calls=TierCalls(ram=2, edge=1), seconds=1.5, read_bytes=9)
    (cost,) = read_step_costs(json.loads(json.dumps({"steps": [asdict(figures)]})))
    assert cost == StepCost(ram=2, edge=1, seconds=1.5, read_bytes=9)


@pytest.mark.parametrize(
    "steps",
    [
        {},
        [5],
        [{"calls": 5}],
        [{"calls": {"ram": -1}}],
        [{"calls": {"ram": "1"}}],
        [{"read_bytes": 1.5}],
        [{"read_bytes": 1 << 63}],
        [{"seconds": -1.0}],
        [{"wait_s": float("nan")}],
        [{"wait_s": float("inf")}],
    ],
)
def test_what_is_no_figure_is_an_error(steps: object) -> None:
    with pytest.raises(ApiError):
        read_step_costs({"steps": steps})


@given(st.lists(st.builds(StepCost, ram=st.integers(0, 9), seconds=st.just(0.5))))
def test_totals_are_sums(costs: list[StepCost]) -> None:
    total = total_cost(costs)
    assert total.ram == sum(cost.ram for cost in costs)
    assert total.seconds == 0.5 * len(costs)
