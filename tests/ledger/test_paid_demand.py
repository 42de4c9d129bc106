"""Paid demand: rows of filed vouchers, by model, expert and span; never twice."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.paid_demand import paid_rows, whole_spans
from ledger.periods import ALL_TIME, Period
from tests.support.ledger_world import Party

MINUTE_US = 60_000_000


def rows(store, period=ALL_TIME):
    with store.reader().session() as connection:
        return paid_rows(connection, store.folder, period)


def served_rows(*servings):
    """What `TabSide.leaf` says of these servings, by expert."""
    sums = {}
    for at in servings:
        expert = (at % 3, at % 5)
        sums[expert] = sums.get(expert, 0) + at % 4 + 1
    return sums


@pytest.fixture
def tab(world, store):
    return world.tab(store.grant(world.order()).result(60))


def test_only_filed_rows_count_each_once(world, store, tab):
    tab.file(store, 0, 1, 2, 7)
    tab.file(store, 9, final=True)
    store.file(tab.forged(), b"", tab.worker.id).result(60)
    alone = world.tab(
        store.grant(world.order(worker=Party("late"))).result(60),
        worker=Party("late"),
        tab=b"tab-late",
    )
    final, block = alone.one_sided(2, 3)
    store.file(final, block, alone.backbone.id).result(60)
    assert rows(store) == {world.manifest_hash: served_rows(0, 1, 2, 7, 9)}


def test_by_the_instant_at_which_it_was_stored(world, store, tab):
    start_us = world.now_us
    tab.file(store, 0, 1)
    world.now_us += MINUTE_US
    tab.file(store, 2)
    first = Period(start_us, start_us + MINUTE_US)
    second = Period(first.end_us, first.end_us + MINUTE_US)
    assert rows(store, first) == {world.manifest_hash: served_rows(0, 1)}
    assert rows(store, second) == {world.manifest_hash: served_rows(2)}
    assert rows(store, Period(second.end_us, ALL_TIME.end_us)) == {}


def test_models_apart(world, store, tab):
    tab.file(store, 0)
    first = world.manifest_hash
    world.manifest_hash = b"m" * 32
    world.prices = replace(world.prices, manifest_hash=b"m" * 32)
    issued = store.grant(world.order(worker=Party("two"))).result(60)
    there = world.tab(issued, worker=Party("two"), tab=b"tab-two!")
    there.file(store, 3)
    assert rows(store) == {first: served_rows(0), b"m" * 32: served_rows(3)}


@given(
    now_us=st.integers(0, 1 << 60),
    span_us=st.integers(1, 1 << 40),
    n_spans=st.integers(0, 20),
    later_us=st.integers(0, 1 << 42),
)
def test_spans_are_whole_over_and_the_same_whenever_one_asks(
    now_us, span_us, n_spans, later_us
):
    spans = whole_spans(now_us, span_us, n_spans)
    assert len(spans) == min(n_spans, now_us // span_us)
    assert all(span.end_us <= now_us for span in spans)
    assert all(span.start_us % span_us == 0 for span in spans)
    assert all(a.end_us == b.start_us for a, b in pairwise(spans))
    for span in whole_spans(now_us + later_us, span_us, n_spans):
        overlaps = [
            one
            for one in spans
            if one.start_us < span.end_us and span.start_us < one.end_us
        ]
        assert overlaps in ([], [span])
