"""A mean that outliers do not move and changes do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.speculation.running import RunningMean


def of(*figures: float) -> RunningMean:
    mean = RunningMean(24)
    for figure in figures:
        mean.add(figure)
    return mean


def test_few_figures_are_averaged() -> None:
    assert of().value == 0.0
    assert of(3.0).value == 3.0
    assert of(1.0, 3.0).value == 2.0


@pytest.mark.parametrize("place", [0, 1, 2, 5])
def test_one_outlier_among_few_says_nothing(place: int) -> None:
    figures = [1.0] * 6
    figures[place] = 50.0
    assert of(*figures).value == pytest.approx(1.0, abs=0.7)


def test_one_among_many_says_little() -> None:
    assert of(*[1.0] * 30, 1000.0).value < 1.2


@pytest.mark.parametrize("level", [0.05, 20.0])
def test_three_in_a_row_are_the_new_level(level: float) -> None:
    mean = of(*[1.0] * 30)
    assert [mean.add(level) for _ in range(3)] == [False, False, True]
    assert mean.value == level


@given(st.lists(st.floats(0.0, 1e6)))
def test_it_stays_among_its_figures(figures: list[float]) -> None:
    mean = of(*figures)
    assert 0.0 <= mean.value <= max(figures, default=0.0) * (1 + 1e-9)
