"""Figures of long answers, on texts whose values are known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.evaluate.long_form import (
    distinct_share,
    halves,
    repetition,
    same_answers,
    stability,
)

TEXTS = st.text(alphabet="ab \n.", max_size=60)


def test_a_text_that_turns_in_circles_repeats_itself():
    assert repetition("one two three four five six seven") == 0.0
    assert repetition("a b c d " * 25) == pytest.approx(1 - 4 / 97)
    assert repetition("too short") == 0.0


def test_distinct_pairs():
    assert distinct_share("a b c d") == 1.0
    assert distinct_share("a a a a a") == 0.25
    assert distinct_share("one") == 1.0


def test_stability_is_what_answers_share():
    assert stability(["a b", "B A."]) == 1.0
    assert stability(["a b", "c d"]) == 0.0
    assert stability(["a a b", "a c"]) == pytest.approx(2 / 5)
    assert stability(["a", "a", "b"]) == pytest.approx(1 / 3)
    assert stability(["a"]) is None
    assert stability(["", ""]) == 0.0


def test_silence_is_no_answer():
    assert same_answers("Yes.", "yes")
    assert not same_answers("yes", "no")
    assert not same_answers("", " ")


def test_the_half_ends_at_a_word():
    assert halves("one two three four") == ("one two", "one two three four")
    assert halves("abcdef") == ("abc", "abcdef")
    assert halves("") == ("", "")


@given(TEXTS, TEXTS)
def test_every_share_is_one(one, other):
    shares = [repetition(one), distinct_share(one), stability([one, other])]
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert stability([one, other]) == stability([other, one])
    assert halves(one)[1].startswith(halves(one)[0])
