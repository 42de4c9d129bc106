"""Agreement of a run with a reference."""

import dataclasses

import pytest

from p2pmoe.evaluate.agreement import agreement, check_reference, leading_share
from p2pmoe.evaluate.errors import RunsDiffer
from p2pmoe.evaluate.run_record import Continuation, WindowScore
from tests.support.evaluations import RUN


def test_a_run_agrees_with_itself():
    assert agreement(RUN, RUN) == {
        "top1_agreement": 1.0,
        "logprob_difference": 0.0,
        "greedy_agreement": 1.0,
    }


def test_positions_and_beginnings_are_counted():
    other = dataclasses.replace(
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
    bare = dataclasses.replace(other, continuations=())
    assert "greedy_agreement" not in agreement(bare, RUN)


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
    other = dataclasses.replace(
        RUN, text=dataclasses.replace(RUN.text, window_tokens=16)
    )
    with pytest.raises(RunsDiffer, match="window_tokens 8 here, 16 there"):
        agreement(RUN, other)
    with pytest.raises(RunsDiffer, match="has no text to agree on"):
        check_reference(dataclasses.replace(RUN, text=None))
    with pytest.raises(RunsDiffer, match="one of the runs has none"):
        agreement(dataclasses.replace(RUN, text=None), RUN)
    short = dataclasses.replace(RUN, windows=(RUN.windows[0], RUN.windows[0]))
    cut = WindowScore(logprobs=(-1.0,), top=("a",))
    with pytest.raises(RunsDiffer, match="windows of another length"):
        agreement(RUN, dataclasses.replace(short, windows=(RUN.windows[0], cut)))
