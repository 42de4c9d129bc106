"""Paid demand: rows of filed vouchers, by model, expert and span; never twice."""

from collections import Counter
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import DifferenceFound
from ledger.leaf_files import leaf_path, pruned_path
from ledger.paid_demand import last_filed_us, paid_rows, paid_spans
from ledger.periods import ALL_TIME, Period
from tests.support.ledger_world import Party, World

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


def test_pruned_leaves_are_left_out(world, store, tab):
    tab.file(store, 0, 1)
    plain = leaf_path(store.folder.leaves, 1)
    plain.rename(plain.with_suffix(".away"))
    with pytest.raises(DifferenceFound):
        rows(store)
    pruned_path(store.folder.leaves, 1).write_text(sha256(b"").hexdigest())
    assert rows(store) == {}


def test_models_apart(world, store, tab):
    tab.file(store, 0)
    first = world.manifest_hash
    world.manifest_hash = b"m" * 32
    world.prices = replace(world.prices, manifest_hash=b"m" * 32)
    issued = store.grant(world.order(worker=Party("two"))).result(60)
    there = world.tab(issued, worker=Party("two"), tab=b"tab-two!")
    there.file(store, 3)
    assert rows(store) == {first: served_rows(0), b"m" * 32: served_rows(3)}


@pytest.fixture(scope="module")
def month(tmp_path_factory):
    """Vouchers at instants that differ by a second, a minute, and more."""
    world, instants = World(), []
    with world.open(tmp_path_factory.mktemp("spans")) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        for n, step_s in enumerate((0, 1, 1, 59, 60, 61, 1, 3600, 7)):
            world.now_us += step_s * 1_000_000
            tab.file(store, n)
            instants.append(world.now_us)
        with store.reader().session() as connection:
            yield connection, store.folder, instants


@given(
    span_s=st.integers(1, 4000),
    since=st.integers(0, 8),
    now_s=st.integers(0, 5000),
    later_s=st.integers(0, 5000),
)
def test_spans_are_whole_over_and_the_same_whenever_one_asks(
    month, span_s, since, now_s, later_s
):
    connection, _, instants = month
    span_us, since_us = span_s * 1_000_000, instants[since]
    now_us = instants[0] + now_s * 1_000_000
    spans = paid_spans(connection, span_us, since_us, now_us)
    assert all(a.end_us <= b.start_us for a, b in pairwise(spans))
    for span in spans:
        assert span.end_us <= now_us
        assert span.start_us % span_us == 0
        assert span.end_us - span.start_us == span_us
    first_us = since_us // span_us * span_us
    whole_us = now_us // span_us * span_us
    for instant in instants:
        is_there = any(instant in span for span in spans)
        assert is_there == (first_us <= instant < whole_us)
    later = paid_spans(connection, span_us, since_us, now_us + later_s * 1_000_000)
    assert later[: len(spans)] == spans


@given(span_s=st.integers(1, 4000))
def test_all_spans_together_are_all_that_was_filed(month, span_s):
    connection, folder, instants = month
    spans = paid_spans(connection, span_s * 1_000_000, 0, 1 << 60)
    counted: Counter = Counter()
    for span in spans:
        for by_expert in paid_rows(connection, folder, span).values():
            counted.update(by_expert)
    assert counted == served_rows(*range(9))
    assert last_filed_us(connection) == instants[-1]
