"""A text in windows, and what the API's echo says of each."""

import copy
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.evaluate.errors import MeasurementFailed
from p2pmoe.evaluate.perplexity import chunks_of
from p2pmoe.evaluate.run_record import WindowScore
from p2pmoe.evaluate.windows import (
    Window,
    echoed_tokens,
    perplexity_of,
    scored_window,
    tokens_digest,
    windows_by_characters,
    windows_by_ids,
)
from tests.support.evaluations import echo_document

TOKENS = ["<s>", " a", " b", " c", " d", " e"]
LOGPROBS = [None, -1.0, -2.0, -3.0, -4.0, -5.0]


@given(st.lists(st.integers(0, 99), min_size=1), st.integers(4, 9), st.integers(0, 9))
def test_windows_of_ids_are_the_chunks_of_llama_perplexity(ids, n, most):
    found = windows_by_ids(ids, n, most, has_bos=True)
    assert [list(w.prompt) for w in found] == list(chunks_of(ids, ids[0], n))[:most]
    plain = windows_by_ids(ids, n, 1000, has_bos=False)
    assert [t for w in plain for t in w.prompt] == ids[: len(ids) // n * n]


@given(st.text(alphabet="ab ", max_size=200), st.integers(1, 9))
def test_pieces_of_text_lie_end_to_end(text, n):
    found = windows_by_characters(text, n, 1000)
    assert text.startswith("".join(str(w.prompt) for w in found))
    assert all(0 < len(w.prompt) <= 4 * n for w in found)
    assert windows_by_characters(text, n, 2) == found[:2]


def test_a_piece_ends_at_a_space():
    found = windows_by_characters("one two three four", 2, 9)
    assert [w.prompt for w in found] == ["one two", " three", " four"][:2]


def test_the_beginning_is_half():
    assert Window((1, 2, 3, 4, 5)).beginning == [1, 2]
    assert Window("abcd").beginning == "ab"


@pytest.mark.parametrize("n_generated", [0, 1])
def test_the_prompts_tokens_are_read(n_generated):
    found = echoed_tokens(echo_document(TOKENS, LOGPROBS, n_generated=n_generated))
    assert [t.text for t in found] == TOKENS
    assert [t.logprob for t in found] == LOGPROBS
    assert [t.offset for t in found] == [0, 3, 5, 7, 9, 11]
    assert [t.top for t in found] == ["", *TOKENS[1:]]


def test_the_second_half_is_scored():
    found = scored_window(echoed_tokens(echo_document(TOKENS, LOGPROBS)))
    assert found == WindowScore(logprobs=(-4.0, -5.0), top=(" d", " e"))
    with pytest.raises(MeasurementFailed, match="1 tokens cannot be scored"):
        scored_window(echoed_tokens(echo_document(["<s>"], [None])))


def damage(change) -> dict:
    document = copy.deepcopy(echo_document(TOKENS, LOGPROBS))
    change(document, document["choices"][0]["logprobs"])
    return document


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d, _: d.pop("choices"), "no log probabilities of the prompt"),
        (lambda d, _: d.pop("usage"), "no log probabilities of the prompt"),
        (lambda d, _: d["choices"].clear(), "no log probabilities"),
        (lambda d, _: d["choices"][0].update(logprobs=None), "no log probabilities"),
        (lambda d, _: d["usage"].update(prompt_tokens=99), "echoes 7 of 99 tokens"),
        (lambda _, t: t["tokens"].clear(), "echoes 0 of 6 tokens"),
        (lambda _, t: t["tokens"].__setitem__(2, 5), "token 2 of the echo is '5'"),
        (lambda _, t: t["text_offset"].__setitem__(2, "x"), "token 2 of the echo"),
        (lambda _, t: t["token_logprobs"].__setitem__(3, None), "token 3 is None"),
        (lambda _, t: t["token_logprobs"].__setitem__(3, 0.5), "token 3 is 0.5"),
        (lambda _, t: t["token_logprobs"].__setitem__(3, math.nan), "token 3 is nan"),
        (lambda _, t: t["top_logprobs"].__setitem__(3, {}), "token 3 has no likeliest"),
        (lambda _, t: t["top_logprobs"].__setitem__(3, {"a": "b"}), "token 3 has no"),
    ],
)
def test_an_answer_without_them_is_named(change, words):
    with pytest.raises(MeasurementFailed, match=words):
        echoed_tokens(damage(change))


def test_perplexity_is_e_to_the_mean():
    windows = [
        WindowScore(logprobs=(-1.0, -2.0), top=("a", "b")),
        WindowScore(logprobs=(-3.0,), top=("c",)),
    ]
    assert perplexity_of(windows) == pytest.approx(math.exp(2.0))
    hopeless = [WindowScore(logprobs=(-9e5,), top=("a",))]
    assert math.isfinite(perplexity_of(hopeless))


def test_the_digest_is_of_borders_too():
    assert tokens_digest(["ab", "c"]) != tokens_digest(["a", "bc"])
    assert tokens_digest(["\ud800"]) == tokens_digest(["\ud800"])
