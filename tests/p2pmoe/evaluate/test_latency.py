"""Percentiles of times, by nearest rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.evaluate.figures import FIGURES
from p2pmoe.evaluate.latency import StreamTimes, latency_figures, percentile

VALUES = st.lists(st.floats(0, 100), min_size=1)


def test_nearest_rank():
    values = [float(n) for n in range(1, 11)]
    assert [percentile(values, rank) for rank in (1, 50, 90, 99, 100)] == [
        1.0, 5.0, 9.0, 10.0, 10.0,
    ]  # fmt: skip
    assert percentile([7.0], 50) == 7.0


@given(VALUES, st.integers(1, 100))
def test_a_percentile_is_one_of_the_values(values, rank):
    found = percentile(values, rank)
    assert found in values
    assert sum(v <= found for v in values) * 100 >= rank * len(values)


def test_figures_of_two_answers():
    answers = [
        StreamTimes(pieces_s=(0.5, 0.6, 0.9), n_tokens=5),
        StreamTimes(pieces_s=(0.3,), n_tokens=1),
        StreamTimes(pieces_s=(), n_tokens=0),
    ]
    found = latency_figures(answers)
    assert set(found) <= set(FIGURES)
    assert found["first_token_p50_s"] == 0.3
    assert found["first_token_p99_s"] == 0.5
    assert found["per_token_p50_s"] == pytest.approx(0.1)
    assert found["gap_p50_s"] == pytest.approx(0.1)
    assert found["gap_p99_s"] == pytest.approx(0.3)
    assert latency_figures([]) == {}
