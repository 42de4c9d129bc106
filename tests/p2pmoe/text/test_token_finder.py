import re

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.text.token_finder import TokenFinder

TEXTS = st.text("<|>ab ", max_size=5)


@given(st.lists(TEXTS, max_size=8), st.text("<|>ab ", max_size=30))
def test_it_finds_what_a_pattern_of_alternatives_finds(
    tokens: list[str], text: str
) -> None:
    longest_first = sorted(filter(None, tokens), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
    found = list(TokenFinder(tokens).find(text))
    assert found == [match.span() for match in pattern.finditer(text)]


@given(st.lists(TEXTS, max_size=8), st.text("<|>ab ", max_size=30))
def test_places_where_one_begins(tokens: list[str], text: str) -> None:
    places = range(len(text))
    wanted = [n for n in places if any(t and text.startswith(t, n) for t in tokens)]
    assert TokenFinder(tokens).starts(text) == wanted


def test_ends_that_could_be_part_of_one() -> None:
    finder = TokenFinder(["<s>", "<|end|>"])
    assert len(finder) == 2
    assert finder.may_end("hello <")
    assert finder.may_end("|e")
    assert not finder.may_end("hello")
    assert finder.may_begin("end|> hello")
    assert finder.may_begin("nd")
    assert not finder.may_begin("hello>")


def test_nothing_to_find() -> None:
    finder = TokenFinder([""])
    assert len(finder) == 0
    assert list(finder.find("abc")) == []
    assert not finder.may_end("a")


def test_thousands_of_alike_tokens_take_one_look_a_place() -> None:
    finder = TokenFinder(f"<|reserved {n:05}|>" for n in range(20_000))
    assert list(finder.find("<|" * 20_000 + "<|reserved 00777|>")) == [(40_000, 40_018)]
