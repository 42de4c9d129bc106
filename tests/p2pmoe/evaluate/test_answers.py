"""When an answer is right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.evaluate.answers import is_right, likeliest, plain
from p2pmoe.evaluate.task_set import Match


@pytest.mark.parametrize(
    ("answer", "expect", "match", "right"),
    [
        (" Paris.\nIt is", ["paris"], Match.EXACT, True),
        ("\n\n**Paris**", ["Paris"], Match.EXACT, True),
        ("Paris is it", ["Paris"], Match.EXACT, False),
        ("\uff30\uff41\uff52\uff49\uff53", ["Paris"], Match.EXACT, True),
        ("", ["Paris"], Match.EXACT, False),
        ("it is  Paris, yes", ["rome", "PARIS"], Match.CONTAINS, True),
        ("it is Parisian", ["Paris"], Match.CONTAINS, False),
        ("New\nYork it is", ["new york"], Match.CONTAINS, True),
        ("Paris it is", ["Paris"], Match.STARTS, True),
        ("Parisian", ["Paris"], Match.STARTS, False),
        ("yes, Paris", ["Paris"], Match.STARTS, False),
        ("a.b", ["a+b"], Match.CONTAINS, False),
        ("...", ["!"], Match.CONTAINS, False),
        ("about 1,234.50 euros", ["1234.5"], Match.NUMBER, True),
        ("-3 or 4", ["4"], Match.NUMBER, False),
        ("1e3", ["1000"], Match.NUMBER, True),
        ("none", ["1"], Match.NUMBER, False),
    ],
)
def test_each_way_of_matching(answer, expect, match, right):
    assert is_right(answer, expect, match) is right


@given(st.text(min_size=1), st.sampled_from(list(Match)))
def test_any_answer_is_judged(answer, match):
    expect = ["12"] if match is Match.NUMBER else ["yes"]
    assert is_right(answer, expect, match) in {True, False}


@given(st.text(alphabet="ab .A\n"))
def test_case_and_space_say_nothing(text):
    assert plain(f" {text.upper()}\n") == plain(text.replace(" ", "  "))


def test_the_first_of_equally_likely_choices_is_taken():
    assert likeliest([-3.0, -1.0, -1.0]) == 1
    assert likeliest([-1.0]) == 0
