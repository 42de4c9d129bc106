import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.sentence_piece import merge_scores, score_merges


def test_better_scores_merge_first() -> None:
    known = {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5}
    scores = {"a": 0.0, "b": 0.0, "c": 0.0, "ab": -2.0, "bc": -1.0, "abc": -3.0}
    assert score_merges(known, scores) == [
        ("b", "c"),
        ("a", "b"),
        ("a", "bc"),
        ("ab", "c"),
    ]


def test_equal_scores_go_by_id() -> None:
    known = {"a": 0, "b": 1, "ba": 2, "ab": 3}
    assert score_merges(known, dict.fromkeys(known, 0.0)) == [("b", "a"), ("a", "b")]


def test_tokens_too_long_to_split_are_refused() -> None:
    known = {"a" * n: n for n in range(1, 1000)}
    with pytest.raises(TokenizerError, match="too long"):
        score_merges(known, dict.fromkeys(known, 0.0))


@given(st.sets(st.text("abc", min_size=1, max_size=4)), st.randoms())
def test_scores_of_merges_mean_the_same_merges(texts: set[str], rng: object) -> None:
    known = {text: place for place, text in enumerate(sorted(texts | set("abc")))}
    shuffled = list(known)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    merges = score_merges(known, {text: -float(n) for n, text in enumerate(shuffled)})
    assert score_merges(known, merge_scores(merges, known)) == merges


def test_merges_that_scores_cannot_mean_are_refused() -> None:
    known = {text: place for place, text in enumerate(["a", "b", "aa", "ab", "aab"])}
    both = [("a", "ab"), ("aa", "b")]
    whole = [("a", "a"), ("a", "b"), *both]
    assert merge_scores(whole, known)["aa"] == -1.0
    apart = [("a", "a"), both[0], ("a", "b"), both[1]]
    with pytest.raises(TokenizerError, match="stand together"):
        merge_scores(apart, known)
    with pytest.raises(TokenizerError, match="left out"):
        merge_scores(whole[:-1], known)
    with pytest.raises(TokenizerError, match="not there"):
        merge_scores([("b", "b")], known)
