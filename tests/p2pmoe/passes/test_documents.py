"""A pass comes back as it was told, and whatever else comes is refused or bounded."""

import json
from contextlib import suppress
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.passes.documents import (
    MAX_LAYERS,
    MAX_MISSING,
    PassUnreadable,
    pass_document,
    read_pass,
)
from p2pmoe.passes.values import LayerTrace, PassTrace

TOLD = PassTrace(
    start_s=12.5,
    seconds=0.08,
    lane=1,
    n_rows=5,
    n_layers=7,
    drafter="self",
    n_drafted=4,
    n_accepted=3,
    n_committed=4,
    why="4 drafts: 61 tokens/s, 38 without",
    trips=2,
    wait_s=0.0625,
    layers=(
        LayerTrace(layer=0, start_s=0.0, missing=(3, 17), n_rows=2, trips=1),
        LayerTrace(layer=5, start_s=0.5, n_disk=1),
    ),
)
of_kind = {
    float: st.floats(0, 1e6).map(lambda s: round(s, 7)),
    int: st.integers(0, 1 << 40),
    str: st.text(max_size=30),
    tuple[int, ...]: st.lists(st.integers(0, 999), max_size=3).map(tuple),
}
layers = st.builds(
    LayerTrace, **{each.name: of_kind[each.type] for each in fields(LayerTrace)}
)
passes = st.builds(
    PassTrace,
    layers=st.lists(layers, max_size=4).map(tuple),
    **{e.name: of_kind[e.type] for e in fields(PassTrace) if e.name != "layers"},
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
    ),
)


@given(passes)
def test_any_pass_is_read_back(told: PassTrace) -> None:
    assert read_pass(json.loads(json.dumps(pass_document(told)))) == told


def test_what_is_nothing_is_left_out() -> None:
    document = pass_document(TOLD)
    assert "failure" not in document
    assert document["layers"] == [
        {"layer": 0, "start_s": 0.0, "missing": [3, 17], "n_rows": 2, "trips": 1},
        {"layer": 5, "start_s": 0.5, "n_disk": 1},
    ]
    assert pass_document(PassTrace(start_s=0.0, seconds=0.0)) == {
        "start_s": 0.0,
        "seconds": 0.0,
    }
    assert read_pass({}) == PassTrace(start_s=0.0, seconds=0.0)


@given(
    st.sampled_from([e.name for e in (*fields(PassTrace), *fields(LayerTrace))]), values
)
def test_whatever_stands_in_a_field_is_refused_or_bounded(
    name: str, value: object
) -> None:
    for document in ({name: value}, {"layers": [{name: value}]}):
        with suppress(PassUnreadable):
            json.dumps(pass_document(read_pass(document)), allow_nan=False)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "a pass is no object"),
        ([], "a pass is no object"),
        ({"layers": [3]}, "a layer is no object"),
        ({"layers": {}}, "layers of a pass is no list"),
        ({"layers": [{}] * (MAX_LAYERS + 1)}, "no list of at most"),
        ({"layers": [{"missing": [1] * (MAX_MISSING + 1)}]}, "no list of at most"),
        ({"layers": [{"missing": [True]}]}, "no experts"),
        ({"layers": [{"missing": [-1]}]}, "out of bounds"),
        ({"trips": -1}, "trips of a pass is out of bounds"),
        ({"trips": 1 << 49}, "out of bounds"),
        ({"trips": True}, "no count"),
        ({"trips": 1.5}, "no count"),
        ({"seconds": float("nan")}, "out of bounds"),
        ({"seconds": 1e300}, "out of bounds"),
        ({"seconds": 10**400}, "out of bounds"),
        ({"seconds": "1"}, "no time"),
        ({"why": "x" * 1001}, "no short text"),
        ({"why": 5}, "no short text"),
    ],
)
def test_what_is_no_pass_is_named(value: object, reason: str) -> None:
    with pytest.raises(PassUnreadable, match=reason):
        read_pass(value)
