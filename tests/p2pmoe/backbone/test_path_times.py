"""Times by path: a mean that follows, and a p95 of the last ones."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.path_times import WINDOW, Path, PathTimes


def test_nothing_is_told_before_it_is_measured() -> None:
    times = PathTimes()
    assert list(times.samples()) == []
    assert times.mean_s(Path.RAM) is None
    assert times.p95_s(Path.RAM) is None


def test_paths_are_apart_and_old_times_are_forgotten() -> None:
    times = PathTimes()
    for _ in range(WINDOW):
        times.add(Path.DISK, 9.0)
    for n in range(WINDOW):
        times.add(Path.DISK, 1.0 + (n % 20 == 0))
    times.add(Path.EDGE, 0.5)
    assert times.p95_s(Path.DISK) == 2.0
    assert times.mean_s(Path.DISK) == pytest.approx(1.05, abs=0.1)
    assert list(times.samples())[2:] == [
        ({"path": "edge", "quantile": "mean"}, 0.5),
        ({"path": "edge", "quantile": "0.95"}, 0.5),
    ]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=300))
def test_both_are_among_what_was_measured(seconds: list[float]) -> None:
    times = PathTimes()
    for one in (*seconds, math.nan, math.inf, -1.0):
        times.add(Path.HUB, one)
    assert times.p95_s(Path.HUB) in seconds
    mean = times.mean_s(Path.HUB)
    assert mean is not None
    assert min(seconds) - 1e-9 <= mean <= max(seconds) + 1e-9
