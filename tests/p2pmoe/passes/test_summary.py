"""A, g, acceptance and the layers that wait, from a request's passes."""

from dataclasses import replace

import pytest

from p2pmoe.passes.summary import (
    PassSummary,
    decode_passes,
    merge_passes,
    summarise,
    summarise_layers,
)
from p2pmoe.passes.values import LayerTrace, PassTrace


def layer(number: int, *missing: int, wait: float = 1.0, rows: int = 1) -> LayerTrace:
    """Return a layer whose answer was there when half of it was waited for."""
    return LayerTrace(
        layer=number,
        start_s=1.0,
        missing=missing,
        n_rows=rows,
        trips=1,
        meanwhile_s=1.0,
        wait_s=wait,
    )


def drafted(drafter: str, n: int, kept: int, *layers: LayerTrace) -> PassTrace:
    return PassTrace(
        start_s=0.0,
        seconds=10.0,
        drafter=drafter,
        n_drafted=n,
        n_accepted=kept,
        n_committed=kept + 1,
        trips=len(layers),
        wait_s=sum(each.wait_s for each in layers),
        layers=layers,
    )


PROMPT = [
    PassTrace(start_s=0.0, seconds=5.0, trips=7),
    PassTrace(start_s=5.0, seconds=5.0, trips=7, n_committed=1),
]
DECODE = [
    drafted("self", 4, 4, layer(0, 3, 5, rows=2), layer(6, 9)),
    drafted("self", 4, 1, layer(0, 5, wait=3.0)),
    drafted("ngram", 2, 2),
    drafted("", 0, 0, layer(0, 5)),
]


def test_what_gave_the_first_token_is_the_prompts() -> None:
    assert decode_passes([*PROMPT, *DECODE]) == DECODE
    assert list(decode_passes(PROMPT)) == []
    assert list(decode_passes([])) == []


def test_a_pass_that_two_requests_shared_is_one() -> None:
    mine, other = DECODE[0], replace(DECODE[0], n_committed=2, n_accepted=1, layers=())
    apart = replace(DECODE[0], lane=1)
    (both, second) = merge_passes([mine, other, apart])
    assert (both.n_committed, both.n_accepted, both.n_drafted) == (7, 5, 8)
    assert both.layers == mine.layers
    assert second == apart


def test_sums_and_ratios() -> None:
    found = summarise(DECODE)
    assert (found.n_passes, found.n_tokens, found.n_trips) == (4, 11, 4)
    assert found.trips_per_token == pytest.approx(4 / 11)
    assert found.tokens_per_pass == pytest.approx(11 / 4)
    assert found.acceptance == pytest.approx(7 / 10)
    assert found.drafts == (("ngram", 2, 2, 1), ("self", 8, 5, 2))
    assert found.crossings_s == (2.0, 2.0, 4.0, 2.0)
    assert found.crossing_s == 2.0
    assert (found.wait_s, found.hidden_s) == (6.0, 4.0)


def test_of_nothing_there_are_no_ratios() -> None:
    found = summarise([])
    assert found == PassSummary()
    assert found.trips_per_token is None
    assert found.tokens_per_pass is None
    assert found.acceptance is None
    assert found.crossing_s is None


def test_layers_say_what_they_waited_for() -> None:
    prefetched = LayerTrace(layer=2, start_s=0.0, n_prefetched=3)
    ahead = PassTrace(start_s=0.0, seconds=1.0, layers=(prefetched,))
    first, second, third = summarise_layers([*DECODE, ahead])
    assert (first.layer, first.n_passes, first.n_rows) == (0, 3, 4)
    assert first.experts == ((5, 3), (3, 1))
    assert (first.wait_s, first.crossing_s) == (5.0, 8.0)
    assert (second.layer, second.n_passes, second.n_prefetched) == (2, 0, 3)
    assert (third.layer, third.experts) == (6, ((9, 1),))
