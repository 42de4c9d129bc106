"""Agreement of a run with a reference."""

from dataclasses import replace

import pytest

from p2pmoe.evaluate.agreement import agreement, check_reference, leading_share
from p2pmoe.evaluate.errors import RunsDiffer
from p2pmoe.evaluate.measure_text import TextPlan
from p2pmoe.evaluate.run_record import Continuation, WindowScore
from p2pmoe.evaluate.windows import Window
from tests.support.evaluations import RUN


def test_a_run_agrees_with_itself():
    assert agreement(RUN, RUN) == {
        "top1_agreement": 1.0,
        "logprob_difference": 0.0,
        "greedy_agreement": 1.0,
    }


def test_positions_and_beginnings_are_counted():
    other = replace(
        RUN,
        windows=(
            WindowScore(logprobs=(-1.0, -2.5, -3.0), top=(" a", " x", " c")),
            WindowScore(logprobs=(-0.5, -0.25, -0.1), top=(" d", " y", " z")),
        ),
        continuations=(Continuation(text=" a c", tokens=(1, 3)),),
    )
    found = agreement(other, RUN)
    assert found["top1_agreement"] == 0.5
    assert found["logprob_difference"] == pytest.approx(0.6 / 6)
    assert found["greedy_agreement"] == 0.5
    bare = [replace(run, continuations=()) for run in (other, RUN)]
    assert "greedy_agreement" not in agreement(*bare)


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ((1, 2, 3), (1, 2, 3), 1.0),
        ((1, 2, 3), (1, 2), 2 / 3),
        ((1, 2), (9, 2), 0.0),
        ((), (), 1.0),
    ],
)
def test_the_leading_share_is_of_the_longer(one, other, share):
    first, second = (Continuation(text="", tokens=t) for t in (one, other))
    assert leading_share(first, second) == leading_share(second, first) == share


def test_without_ids_characters_count():
    one, other = Continuation(text="abcd", tokens=(1,)), Continuation(text="abxy")
    assert leading_share(one, other) == 0.5


def test_another_text_is_refused_by_what_differs():
    assert RUN.text is not None
    other = replace(RUN, text=replace(RUN.text, window_tokens=16, tokens="x"))
    with pytest.raises(RunsDiffer, match="window_tokens, tokens"):
        agreement(RUN, other)
    with pytest.raises(RunsDiffer, match="one of the runs has none"):
        agreement(replace(RUN, text=None), RUN)


def test_runs_that_were_edited_are_refused():
    cut = WindowScore(logprobs=(-1.0,), top=("a",))
    for windows in ((RUN.windows[0], cut), RUN.windows[:1], ()):
        edited = replace(RUN, windows=windows)
        for pair in ((RUN, edited), (edited, RUN), (edited, edited)):
            if pair[0] != pair[1] or not windows:
                with pytest.raises(RunsDiffer, match="windows of another length"):
                    agreement(*pair)
    with pytest.raises(RunsDiffer, match="another length"):
        agreement(RUN, replace(RUN, continuations=()))


PLAN = TextPlan(
    sha256="12" * 32,
    windows=[Window((0, 1)), Window((0, 2))],
    window_tokens=8,
    n_continuations=1,
    continuation_tokens=4,
)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sha256": "99" * 32}, "sha256 9999999999999999 here, 1212121212121212 there"),
        ({"windows": [Window("text")] * 2}, "cut_by characters here, ids there"),
        ({"windows": PLAN.windows[:1]}, "n_windows 1 here, 2 there"),
        ({"window_tokens": 9}, "window_tokens 9 here, 8 there"),
        ({"n_continuations": 0}, "n_continuations 0 here, 1 there"),
        ({"continuation_tokens": 5}, "continuation_tokens 5 here, 4 there"),
    ],
)
def test_a_reference_is_looked_at_before_anything_is_measured(change, words):
    check_reference(RUN, PLAN)
    with pytest.raises(RunsDiffer, match=words):
        check_reference(RUN, replace(PLAN, **change))


def test_a_reference_needs_a_text():
    with pytest.raises(RunsDiffer, match="has no text to agree on"):
        check_reference(replace(RUN, text=None), PLAN)
    with pytest.raises(RunsDiffer, match="has no text to agree on"):
        check_reference(replace(RUN, windows=()), PLAN)
