from dataclasses import replace

import pytest

from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.vocabulary import (
    TokenKind,
    Vocabulary,
    check_vocabulary,
    turn_ends,
)
from tests.support.vocabularies import (
    BYTE_LEVEL,
    PIECES,
    UNIGRAMS,
    read_vocabulary,
    unigram_metadata,
)


def with_text(vocabulary: Vocabulary, token: int, text: str) -> Vocabulary:
    texts = (*vocabulary.texts[:token], text, *vocabulary.texts[token + 1 :])
    return replace(vocabulary, texts=texts)


def test_bytes_of_tokens() -> None:
    by_text = {text: token for token, text in enumerate(BYTE_LEVEL.texts)}
    assert BYTE_LEVEL.token_bytes(by_text["<|im_end|>"]) == b""
    assert BYTE_LEVEL.token_bytes(by_text["<think>"]) == b"<think>"
    assert BYTE_LEVEL.token_bytes(by_text["Ġw"]) == b" w"
    assert BYTE_LEVEL.token_bytes(by_text["ð"]) == b"\xf0"
    assert PIECES.token_bytes(PIECES.texts.index("<0xF0>")) == b"\xf0"
    assert PIECES.token_bytes(PIECES.texts.index("▁")) == b" "


def test_unused_tokens_stand_for_nothing() -> None:
    kinds = (*BYTE_LEVEL.kinds[:-1], TokenKind.UNUSED)
    assert replace(BYTE_LEVEL, kinds=kinds).token_bytes(len(kinds) - 1) == b""


def test_the_digest_changes_with_anything_that_changes_tokens() -> None:
    assert len(BYTE_LEVEL.digest()) == 32
    changed = [
        replace(BYTE_LEVEL, pretokenizer="qwen2"),
        with_text(BYTE_LEVEL, len(BYTE_LEVEL.texts) - 1, "x" * 9),
        replace(BYTE_LEVEL, merges=BYTE_LEVEL.merges[::-1]),
        replace(BYTE_LEVEL, add_bos=False),
        replace(BYTE_LEVEL, eos_id=1),
        replace(BYTE_LEVEL, ignore_merges=True),
        replace(BYTE_LEVEL, stop_ids=frozenset()),
        replace(BYTE_LEVEL, kinds=(TokenKind.NORMAL, *BYTE_LEVEL.kinds[1:])),
        PIECES,
        replace(PIECES, add_space=False),
        replace(PIECES, space_after_control=False),
        UNIGRAMS,
        replace(UNIGRAMS, squeeze_spaces=True),
    ]
    assert len({v.digest() for v in [BYTE_LEVEL, *changed]}) == len(changed) + 1


def test_names_of_one_rule_have_one_digest() -> None:
    assert replace(BYTE_LEVEL, pretokenizer="olmo").digest() == BYTE_LEVEL.digest()


def test_turn_ends_are_control_tokens() -> None:
    control, normal = TokenKind.CONTROL, TokenKind.NORMAL
    assert turn_ends(("<|im_end|>", "x"), (control, control)) == {0}
    assert turn_ends(("<|im_end|>",), (normal,)) == frozenset()


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (with_text(BYTE_LEVEL, 1, "<|bos|>"), "not unique"),
        (with_text(BYTE_LEVEL, BYTE_LEVEL.texts.index("a"), "aa"), "byte 0x61"),
        (with_text(BYTE_LEVEL, 266, "中"), "stands for no byte"),
        (with_text(BYTE_LEVEL, 0, "\ud800"), "lone surrogate"),
        (replace(BYTE_LEVEL, merges=("a \ud800",)), "lone surrogate"),
        (with_text(BYTE_LEVEL, 266, "b" * 10_001), "10001 characters .normal"),
        (with_text(BYTE_LEVEL, 0, "b" * 257), "257 characters .control"),
        (with_text(BYTE_LEVEL, 267, "b" * 257), "257 characters .user-defined"),
        (with_text(UNIGRAMS, len(UNIGRAMS.texts) - 1, "b" * 257), "257 characters"),
        (with_text(PIECES, PIECES.texts.index("<0x41>"), "<0x4g>"), "no byte token"),
        (with_text(PIECES, PIECES.texts.index("<0x41>"), "<0x+1>"), "no byte token"),
        (with_text(PIECES, PIECES.texts.index("<0x41>"), "<0x4A>"), "not unique"),
    ],
    ids=range(12),
)
def test_what_is_inconsistent_or_slow_is_refused(
    vocabulary: Vocabulary, message: str
) -> None:
    with pytest.raises(TokenizerError, match=message):
        check_vocabulary(vocabulary)


def test_unigrams_need_bytes_or_an_unknown_token() -> None:
    without = read_vocabulary(unigram_metadata(with_bytes=False))
    check_vocabulary(without)
    with pytest.raises(TokenizerError, match="neither byte tokens"):
        check_vocabulary(replace(without, unknown_id=None))


def test_a_message_of_gpt_oss_does_not_end_its_turn() -> None:
    texts = ("<|return|>", "<|end|>", "<|call|>", "<|endoftext|>")
    kinds = (TokenKind.CONTROL,) * 4
    assert turn_ends(texts, kinds) == {0, 2, 3}
    assert turn_ends(texts[1:], kinds[1:]) == {0, 1, 2}  # another model's
