import re
import tracemalloc

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


@given(st.lists(TEXTS, max_size=8), st.text("<|>ab ", min_size=1, max_size=8))
def test_ends_are_those_that_could_go_on(tokens: list[str], text: str) -> None:
    finder = TokenFinder(tokens)
    held = any(text in token for token in tokens)
    tails = [text[n:] for n in range(len(text))]
    goes_on = any(t.startswith(tail) and t != tail for t in tokens for tail in tails)
    assert finder.may_end(text) is (held or goes_on)
    heads = [text[:n] for n in range(1, len(text) + 1)]
    came_from = any(t.endswith(head) and t != head for t in tokens for head in heads)
    assert finder.may_begin(text) is (held or came_from)


def test_long_tokens_take_little_more_than_their_texts() -> None:
    texts = [f"{n:05}" * 50 for n in range(2_000)]
    tracemalloc.start()
    finder = TokenFinder(texts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * sum(map(len, texts))
    assert finder.may_end("00123" * 49)
