"""The first place where two runs deviate is named, and nothing else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.passes.values import PassTrace
from p2pmoe.trace.diff import compare_traces
from p2pmoe.trace.format import (
    CallHash,
    Configured,
    Ended,
    Given,
    PositionHashes,
    TraceRecord,
    TraceUnreadable,
    first_line,
    line_of,
    read_trace,
)

INPUT = Given({"prompt": "abc", "seed": 1})
CONFIGURATION = Configured({"profile": "r16", "digest": "aa"})
END = Ended("stop", "some text", 2)
LAYERS, EXPERTS = (1, 2), (-1, 3, 5)


def positions(n: int = 4) -> list[PositionHashes]:
    return [
        PositionHashes(
            p, tuple(CallHash(la, e, f"{p}-{la}-{e}") for la in LAYERS for e in EXPERTS)
        )
        for p in range(n)
    ]


def run(*middle: PositionHashes, end: Ended = END) -> list[TraceRecord]:
    return [INPUT, CONFIGURATION, *(middle or positions()), end]


def changed(p: int, layer: int, expert: int) -> list[PositionHashes]:
    """Return positions with one hash changed, and all that it makes differ."""
    found = []
    for record in positions():
        calls = [
            replace(call, digest=f"{call.digest}*")
            if record.position >= p
            and (
                (call.layer, call.expert) == (layer, expert)
                or (call.layer > layer and record.position >= p)
            )
            else call
            for call in record.hashes
        ]
        found.append(PositionHashes(record.position, tuple(calls)))
    return found


def test_what_passes_cost_is_no_deviation() -> None:
    told = PassTrace(start_s=2.5, seconds=0.25, trips=1)
    first, *rest = positions()
    assert compare_traces(run(), [*run()[:2], told, first, told, *rest, END]).is_equal


def test_equal_runs_are_equal() -> None:
    report = compare_traces(run(), run())
    assert report.is_equal
    assert (report.n_positions, report.n_hashes) == (4, 24)


@given(st.integers(0, 3), st.sampled_from(LAYERS), st.sampled_from(EXPERTS))
def test_the_cause_is_named_and_not_a_consequence(
    position: int, layer: int, expert: int
) -> None:
    report = compare_traces(run(), run(*changed(position, layer, expert)))
    place = report.place
    assert place is not None
    assert place.position == position
    assert place.layer == layer
    assert place.expert == (None if expert < 0 else expert)
    assert place.right == f"{place.left}*"
    assert report.n_positions == position
    other_way = compare_traces(run(*changed(position, layer, expert)), run()).place
    assert other_way is not None
    assert other_way.where == place.where


def test_an_expert_that_one_run_did_not_call_is_named() -> None:
    first = positions()
    first[2] = PositionHashes(2, first[2].hashes[:2] + first[2].hashes[3:])
    place = compare_traces(run(), run(*first)).place
    assert place is not None
    assert place.where == "position 2, layer 1, expert 5"
    assert place.right == "not called"


def test_other_prompts_are_not_compared_further() -> None:
    other = [Given({"prompt": "abd", "seed": 1}), *run(*changed(0, 1, 3))[1:]]
    report = compare_traces(run(), other)
    (only,) = report.variables
    assert (only.where, only.left, only.right) == ("prompt, character 2", "'c'", "'d'")
    assert report.place is None
    assert not report.is_equal
    longer = [Given({"prompt": "abcd", "seed": 1}), *run()[1:]]
    (only,) = compare_traces(run(), longer).variables
    assert (only.left, only.right) == ("(its end)", "'d'")
    (only,) = compare_traces(run(), [Given({"prompt": "abc"}), *run()[1:]]).variables
    assert (only.where, only.left, only.right) == ("seed", "1", "not given")


def test_a_configuration_that_differs_is_told_and_the_place_too() -> None:
    other = [INPUT, Configured({"profile": "r8", "digest": "bb"})]
    other += run(*changed(1, 2, -1))[2:]
    report = compare_traces(run(), other)
    assert [v.where for v in report.variables] == ["configuration: profile"]
    assert report.place is not None
    assert report.place.where == "position 1, layer 2, input of its experts"
    same_values = compare_traces(run(), [INPUT, other[1], *run()[2:]])
    assert same_values.place is None
    assert not same_values.is_equal


@pytest.mark.parametrize(
    ("end", "where", "left", "right"),
    [
        (Ended("stop", "some tale", 2), "text, character 6", "'ext'", "'ale'"),
        (Ended("length", "some text", 2), "end", "ended: stop", "ended: length"),
        (Ended(None, "some text", 2), "end", "ended: stop", "failed"),
    ],
)
def test_what_comes_last_is_compared_last(
    end: Ended, where: str, left: str, right: str
) -> None:
    place = compare_traces(run(), run(end=end)).place
    assert place is not None
    assert (place.where, place.left, place.right) == (where, left, right)


def test_a_run_that_is_longer_or_has_gaps_is_told() -> None:
    place = compare_traces(run(), run(*positions(6))).place
    assert place is not None
    assert (place.where, place.left) == ("position 4", "ended: stop")
    place = compare_traces(run(), run(*positions()[1:])).place
    assert place is not None
    assert (place.where, place.right) == ("position 0", "not computed")


def test_a_broken_trace_still_gives_a_place_that_comes_before_the_break() -> None:
    broken = run(*changed(1, 1, 3))[:-2]
    assert compare_traces(run(), broken).place is not None
    with pytest.raises(TraceUnreadable, match="breaks off"):
        compare_traces(run(), run()[:-1])
    with pytest.raises(TraceUnreadable, match="begins with"):
        compare_traces([], run())


def test_what_stands_behind_the_end_is_never_equal() -> None:
    lines = [first_line("x"), *map(line_of, run(PositionHashes(0, ())))]
    whole = [line.encode() for line in lines]
    assert compare_traces(read_trace(whole), read_trace(whole)).is_equal
    for more in (b"x\n", whole[-1]):
        for left, right in ((whole, [*whole, more]), ([*whole, more], whole)):
            with pytest.raises(TraceUnreadable, match="behind the end"):
                compare_traces(read_trace(left), read_trace(right))
    with pytest.raises(TraceUnreadable, match="behind its end"):
        compare_traces(run(), [*run(), END])
