from dataclasses import replace

import pytest

from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.mergers import build_merger
from p2pmoe.text.vocabulary import Vocabulary
from tests.support.vocabularies import (
    BYTE_LEVEL,
    PIECES,
    UNIGRAMS,
    read_vocabulary,
    unigram_metadata,
)


def pieces(vocabulary: Vocabulary, text: str) -> list[str]:
    encoded = build_merger(vocabulary).encode(text, add_special_tokens=False)
    return [vocabulary.texts[token] for token in encoded.ids]


def test_byte_level_merges_within_pieces() -> None:
    assert pieces(BYTE_LEVEL, "hello w333") == ["hello", "Ġw", "333"]
    assert pieces(BYTE_LEVEL, "é") == ["Ã", "©"]


def test_a_piece_that_is_a_token_is_taken_whole_where_merges_are_ignored() -> None:
    apart = replace(BYTE_LEVEL, merges=BYTE_LEVEL.merges[:1])
    assert pieces(apart, "hello") == ["he", "l", "l", "o"]
    assert pieces(replace(apart, ignore_merges=True), "hello") == ["hello"]


def test_sentence_piece_merges_by_score_and_falls_back_to_bytes() -> None:
    assert pieces(PIECES, "▁hello▁w") == ["▁", "hello", "▁w"]
    assert pieces(PIECES, "é") == ["<0xC3>", "<0xA9>"]


def test_unigrams_take_the_best_way() -> None:
    assert pieces(UNIGRAMS, "▁hello▁world") == ["▁hello", "▁world"]
    assert pieces(UNIGRAMS, "é") == ["<0xC3>", "<0xA9>"]
    without = read_vocabulary(unigram_metadata(with_bytes=False))
    assert pieces(without, "oé") == ["o", "<unk>"]


def test_no_text_becomes_a_control_token() -> None:
    assert pieces(UNIGRAMS, "</s>")[0] != "</s>"
    assert pieces(PIECES, "<s>")[0] != "<s>"
    assert "<|bos|>" not in pieces(BYTE_LEVEL, "<|bos|>")


def test_merges_of_unknown_tokens_are_refused() -> None:
    with pytest.raises(TokenizerError, match="'q q'"):
        build_merger(replace(BYTE_LEVEL, merges=("q q",)))
