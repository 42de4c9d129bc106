"""Passes on a time axis: nothing overlaps, nothing is lost, and rows are bounded."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.passes.values import LayerTrace, PassTrace
from p2pmoe.trace import timeline as timeline_module
from p2pmoe.trace.timeline import MAX_ROWS, Bar, Kind, Timeline, arrange
from tests.support.passes import a_pass, any_pass, waited


def of_kind(timeline: Timeline, kind: Kind) -> list[Bar]:
    return [bar for bar in timeline.bars if bar.kind is kind]


def spans(bars: list[Bar]) -> list[tuple[float, float]]:
    return [(pytest.approx(bar.start_s), pytest.approx(bar.end_s)) for bar in bars]


def test_a_pass_computes_waits_and_has_calls_away() -> None:
    found = arrange([a_pass(50.0, waited(3, 7, 9), n_committed=2)])
    assert found.strips == (0,)
    assert spans(of_kind(found, Kind.COMPUTES)) == [(0.0, 0.1)]
    assert spans(of_kind(found, Kind.WAITS)) == [(0.015, 0.03)]
    (away,) = of_kind(found, Kind.AWAY)
    assert spans([away]) == [(0.01, 0.03)]
    assert away.label == "3"
    assert away.hint.startswith("layer 3 needs 7, 9 for 2 rows; away 20.0 ms")
    (mark,) = found.marks
    assert (mark.label, mark.failed) == ("+2", False)


def test_drafts_stand_before_their_pass_and_in_its_waits() -> None:
    layer = LayerTrace(
        layer=1, start_s=0.01, trips=1, meanwhile_s=0.01, draft_s=0.004, wait_s=0.01
    )
    told = a_pass(
        50.0, layer, drafter="self", n_drafted=4, n_accepted=3, draft_s=0.05, why="it"
    )
    found = arrange([told])
    assert spans(of_kind(found, Kind.DRAFTS)) == [(0.0, 0.05), (0.066, 0.07)]
    assert found.marks[0].label == "+1 self 3/4"
    assert "why: it" in found.marks[0].hint


def test_weights_are_waited_for_at_the_beginning() -> None:
    told = a_pass(50.0, prefetch_s=0.03, n_fetched=9, fetched_bytes=4096)
    found = arrange([told])
    (fetch,) = of_kind(found, Kind.FETCHES)
    assert spans([fetch]) == [(0.0, 0.03)]
    assert fetch.hint == "waits for 9 experts, 4096 bytes"


def test_passes_that_overlap_stand_in_strips_of_their_lane() -> None:
    chunks = [a_pass(50.0), a_pass(50.05), a_pass(50.1)]
    found = arrange([*chunks, a_pass(50.0, lane=2)])
    assert found.strips == (0, 0, 2)
    assert {mark.strip for mark in found.marks} == {0, 1, 2}
    third = next(mark for mark in found.marks if mark.start_s > 0.07)
    assert third.strip == 0  # free again


def test_failures_and_hedges_are_marked() -> None:
    hedged = LayerTrace(
        layer=4, start_s=0.01, trips=1, wait_s=0.01, n_hedged=2, n_failovers=1
    )
    found = arrange([a_pass(50.0, hedged, failure="nobody holds 3")])
    assert of_kind(found, Kind.AWAY)[0].label == "4h"
    assert "2 calls hedged; 1 calls went elsewhere" in found.bars[-1].hint
    assert found.marks[0].failed
    assert found.marks[0].label == "failed"


def test_a_pass_that_two_requests_shared_is_drawn_once() -> None:
    found = arrange([a_pass(50.0), a_pass(50.0)])
    assert len(found.marks) == 1
    assert found.marks[0].label == "+2"


def test_idle_time_takes_no_rows() -> None:
    early = [a_pass(50.0 + n / 10) for n in range(12)]
    late = [a_pass(9000.0 + n / 10) for n in range(12)]
    found = arrange([*early, *late])
    assert found.row_s == 0.8
    assert len(found.rows) <= 5
    assert found.n_left_out == 0


def test_nothing_makes_an_empty_timeline() -> None:
    assert arrange([]) == Timeline(row_s=1.0)


def test_rows_beyond_the_last_are_counted() -> None:
    apart = [a_pass(50.0 + 100 * n) for n in range(MAX_ROWS + 9)]
    found = arrange(apart)
    assert len(found.rows) == MAX_ROWS
    assert found.n_left_out >= 9


@given(st.lists(any_pass, max_size=6))
def test_whatever_passes_say_the_timeline_is_bounded(passes: list[PassTrace]) -> None:
    found = arrange(passes)
    assert len(found.rows) <= MAX_ROWS
    n_layers = sum(len(told.layers) for told in passes)
    assert len(found.bars) <= (MAX_ROWS + 2) * (3 * n_layers + 4 * len(passes))
    for bar in found.bars:
        assert bar.end_s > bar.start_s >= 0.0
        assert 0 <= bar.row < len(found.rows)
        assert 0 <= bar.strip < len(found.strips)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=12))
def test_no_two_passes_of_a_strip_overlap(begins: list[tuple[int, int]]) -> None:
    found = arrange(a_pass(50 + begin / 25, lane=lane) for begin, lane in begins)
    computes = sorted(
        (bar.strip, bar.start_s, bar.end_s) for bar in of_kind(found, Kind.COMPUTES)
    )
    for (strip, _, end_s), (other, start_s, _) in itertools.pairwise(computes):
        assert strip != other or end_s <= start_s + 1e-5


def test_there_are_only_so_many_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "MAX_BARS", 3)
    found = arrange([a_pass(50.0 + i) for i in range(5)])
    assert len(found.marks) == len(of_kind(found, Kind.COMPUTES)) == 3
    assert (found.n_passes_left_out, found.n_left_out) == (2, 0)


def test_thousands_of_passes_at_once_are_a_strip_each() -> None:
    found = arrange(
        [PassTrace(start_s=50 + n / 1e3, seconds=99.0) for n in range(2000)]
    )
    assert found.strips == (0,) * 2000
    assert sorted(mark.strip for mark in found.marks) == list(range(2000))
