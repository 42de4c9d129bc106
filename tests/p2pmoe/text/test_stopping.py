"""Faults B18 and B21: ends inside accepted blocks, stop strings over borders."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.text.byte_alphabet import BYTE_TO_CHAR
from p2pmoe.text.stopping import (
    CompletionText,
    FinishReason,
    StopFinder,
    StopRules,
    cut_block,
)
from tests.support.vocabularies import BYTE_LEVEL

STOP = 99
WORDS = {10: b"ten ", 11: b"eleven ", 12: b"\xf0\x9f", 13: b"\x98\x8a", 14: b"d"}


def word(token: int) -> bytes:
    return WORDS.get(token, b"<%d>" % token)


def rules(max_tokens: int, *stops: str) -> StopRules:
    return StopRules(
        max_tokens=max_tokens, stop_ids=frozenset({STOP}), stop_texts=stops
    )


@pytest.mark.parametrize(
    ("block", "max_tokens", "shown", "count", "finish"),
    [
        ([10, 11, STOP, 20, 21, 22], 5, (10, 11), 3, FinishReason.STOP),
        ([10, 11, 12, 13, 14, STOP], 5, (10, 11, 12, 13, 14), 5, FinishReason.LENGTH),
        ([10, 11, 12, 13, STOP], 5, (10, 11, 12, 13), 5, FinishReason.STOP),
        ([10, 11, 12, STOP], 8, (10, 11, 12), 4, FinishReason.STOP),  # bonus token
        ([10, 11, 12, 13, 14], 1, (10,), 1, FinishReason.LENGTH),
        ([10, 11], 5, (10, 11), 2, None),
        ([], 5, (), 0, None),
    ],
)
def test_b18_a_block_is_cut_at_its_first_end(
    block: list[int],
    max_tokens: int,
    shown: tuple[int, ...],
    count: int,
    finish: FinishReason | None,
) -> None:
    cut = cut_block(block, 0, rules(max_tokens))
    assert (cut.shown, cut.n_tokens, cut.finish) == (shown, count, finish)


def test_b18_blocks_of_five_deliver_exactly_eight() -> None:
    text = CompletionText(rules(8), word)
    first = text.accept([10] * 5)
    second = text.accept([10] * 5)
    assert (first.finish, second.finish) == (None, FinishReason.LENGTH)
    assert text.n_tokens == 8
    assert first.text + second.text == "ten " * 8


def test_b18_a_stop_string_over_two_blocks() -> None:
    text = CompletionText(rules(99, "n eleven"), word)
    assert text.accept([10, 10]).text == "ten te"
    delta = text.accept([11, 14, 14])
    assert (delta.text, delta.finish) == ("", FinishReason.STOP)
    assert text.n_tokens == 3


def test_after_an_end_nothing_counts() -> None:
    text = CompletionText(rules(1), word)
    assert text.accept([10, 11]).text == "ten "
    assert text.accept([11]).text == ""
    assert text.finish().text == ""
    assert text.n_tokens == 1


def test_what_was_held_back_comes_at_the_end() -> None:
    text = CompletionText(rules(2, "eleven!"), word)
    assert text.accept([11]).text == "eleven "
    text = CompletionText(rules(9, "ten t"), word)
    assert text.accept([10]).text == ""
    assert text.accept([STOP]).text == "ten "
    text = CompletionText(rules(9, "ten t"), word)
    text.accept([10])
    assert text.finish().text == "ten "


def test_b21_a_broken_character_at_the_end_is_replaced() -> None:
    text = CompletionText(rules(9), word)
    assert text.accept([12]).text == ""
    assert text.accept([STOP]).text == "\ufffd"


def byte_tokens(text: str) -> list[int]:
    by_text = {piece: token for token, piece in enumerate(BYTE_LEVEL.texts)}
    return [by_text[BYTE_TO_CHAR[byte]] for byte in text.encode()]


def test_b21_byte_tokens_one_a_step() -> None:
    text = CompletionText(rules(99), BYTE_LEVEL.token_bytes)
    deltas = [text.accept([token]).text for token in byte_tokens("😊")]
    assert deltas == ["", "", "", "😊"]
    broken = CompletionText(
        StopRules(max_tokens=9, stop_ids=BYTE_LEVEL.stop_ids), BYTE_LEVEL.token_bytes
    )
    assert broken.accept(byte_tokens("😊")[:2]).text == ""
    last = broken.accept([2])
    assert (last.text, last.finish) == ("\ufffd", FinishReason.STOP)


@pytest.mark.parametrize(
    "whole",
    ["👨\u200d👩\u200d👧\u200d👦!", "cafe\u0301 de\u0301ja\u0300", "a\r\n \0é中"],
)
def test_b21_a_stream_is_what_one_block_gives(whole: str) -> None:
    tokens = byte_tokens(whole)
    streamed = CompletionText(rules(999), BYTE_LEVEL.token_bytes)
    pieces = [streamed.accept([token]).text for token in tokens]
    at_once = CompletionText(rules(999), BYTE_LEVEL.token_bytes)
    assert "".join(pieces) + streamed.finish().text == whole
    assert at_once.accept(tokens).text + at_once.finish().text == whole


def test_b21_a_stop_string_that_begins_in_mid_character() -> None:
    text = CompletionText(rules(9, "😊d"), word)
    assert [text.accept([token]).text for token in (10, 12, 13)] == ["ten ", "", ""]
    assert text.accept([14]).finish is FinishReason.STOP
    assert text.n_tokens == 4


def test_the_earliest_of_several_stop_strings_wins() -> None:
    finder = StopFinder(["cd", "b"])
    assert finder.push("abcd") == ("a", True)


def test_text_that_only_resembles_a_stop_string_is_shown() -> None:
    finder = StopFinder(["abab!"])
    assert finder.push("xabab") == ("x", False)
    assert finder.push("ab") == ("ab", False)
    assert finder.push("!") == ("", True)
    finder = StopFinder([])
    assert finder.push("abc") == ("abc", False)
    assert finder.finish() == ""


tokens = st.lists(st.sampled_from([10, 11, 12, 13, 14, STOP]), max_size=12)


def run(
    blocks: Sequence[Sequence[int]], stops: StopRules
) -> tuple[str, int, FinishReason | None]:
    text = CompletionText(stops, word)
    pieces, finish = [], None
    for block in blocks:
        delta = text.accept(block)
        pieces.append(delta.text)
        finish = finish or delta.finish
    pieces.append(text.finish().text)
    return "".join(pieces), text.n_tokens, finish


@given(
    tokens, st.integers(1, 9), st.sampled_from([(), ("n t",), ("e", "😊")]), st.data()
)
def test_b18_text_and_usage_do_not_depend_on_the_blocks(
    sequence: list[int], max_tokens: int, stops: tuple[str, ...], data: st.DataObject
) -> None:
    given_rules = rules(max_tokens, *stops)
    one_by_one = run([[token] for token in sequence], given_rules)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sequence)))))
    ends = [*cuts, len(sequence)]
    starts = [0, *cuts]
    blocks = [sequence[a:b] for a, b in zip(starts, ends, strict=True)]
    assert run(blocks, given_rules) == one_by_one
