"""Percentiles and the histogram of delays."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.probe.delays import Bucket, histogram, percentile, queue_delays

DELAYS = st.lists(st.floats(0, 100), max_size=50)


def test_percentiles_are_delays_that_were_seen() -> None:
    delays = [0.004, 0.001, 0.003, 0.002]
    assert percentile(delays, 0) == 0.001
    assert percentile(delays, 0.5) == 0.002
    assert percentile(delays, 0.51) == 0.003
    assert percentile(delays, 1) == 0.004


@pytest.mark.parametrize(("delays", "share"), [([], 0.5), ([1.0], 1.1), ([1.0], -1)])
def test_no_percentile(delays: list[float], share: float) -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile(delays, share)


def test_the_histogram_reaches_from_the_first_to_the_last_range_that_has_any() -> None:
    assert histogram([]) == []
    assert histogram([0.0003, 0.0004, 0.0015]) == [
        Bucket(from_ms=0.2, to_ms=0.5, count=2),
        Bucket(from_ms=0.5, to_ms=1, count=0),
        Bucket(from_ms=1, to_ms=2, count=1),
    ]
    [last] = histogram([30.0])
    assert (last.from_ms, last.to_ms) == (1000, math.inf)
    assert last.label == "1000 ms or more"
    assert histogram([0.0])[0].label == "below 0.1 ms"


@given(DELAYS)
def test_each_delay_is_counted_once_and_where_it_belongs(delays: list[float]) -> None:
    buckets = histogram(delays)
    assert sum(bucket.count for bucket in buckets) == len(delays)
    for bucket in buckets:
        inside = [d for d in delays if bucket.from_ms <= d * 1000 < bucket.to_ms]
        assert bucket.count == len(inside)


@given(DELAYS)
def test_queue_delays_begin_at_nothing(delays: list[float]) -> None:
    waits = queue_delays(delays)
    assert len(waits) == len(delays)
    assert not waits or min(waits) == 0
