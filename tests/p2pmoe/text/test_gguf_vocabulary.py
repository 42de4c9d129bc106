"""Vocabularies in metadata: read, refused, and written back the same (fault B10)."""

import pytest

from p2pmoe.text.errors import PretokenizerUnknown, TokenizerError
from p2pmoe.text.gguf_vocabulary import vocabulary_metadata
from p2pmoe.text.vocabulary import TokenKind, Vocabulary, VocabularyKind
from p2pmoe.weights.errors import ModelFileError
from tests.support.vocabularies import (
    byte_level_metadata,
    read_vocabulary,
    sentence_piece_metadata,
    unigram_metadata,
)

T = "tokenizer.ggml."


def byte_level(override: str | None = None, **changes: object) -> Vocabulary:
    changed = {T + key: value for key, value in changes.items()}
    return read_vocabulary(byte_level_metadata(**changed), override)


def test_it_is_read_from_metadata() -> None:
    vocabulary = byte_level()
    assert vocabulary.kind is VocabularyKind.BYTE_LEVEL
    assert vocabulary.pretokenizer == "gpt-2"
    assert (vocabulary.bos_id, vocabulary.eos_id, vocabulary.unknown_id) == (0, 2, None)
    assert vocabulary.add_bos
    assert not vocabulary.add_space
    assert vocabulary.stop_ids == {2}
    assert vocabulary.kinds[0] is TokenKind.CONTROL


def test_a_turn_end_that_metadata_do_not_name_stops_too() -> None:
    assert byte_level(eos_token_id=0).stop_ids == {0, 2}
    assert byte_level(eos_token_id=0, eot_token_id=1).stop_ids == {0, 1, 2}


@pytest.mark.parametrize("pre", [None, "", "unknown-xyz", "default"])
def test_b10_a_missing_or_unknown_pretokenizer_needs_an_override(
    pre: str | None,
) -> None:
    with pytest.raises(PretokenizerUnknown):
        byte_level(pre=pre)
    assert byte_level("llama-bpe", pre=pre).pretokenizer == "llama-bpe"
    assert byte_level("default", pre=pre).pretokenizer == "default"


@pytest.mark.parametrize("name", ["bert", "rwkv", "plamo2", "no_vocab", "nonsense"])
def test_other_tokenizer_models_are_refused_by_name(name: str) -> None:
    with pytest.raises(TokenizerError, match=f"'{name}' is unknown"):
        byte_level(model=name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"tokens": ["a", "a"], "token_type": [1, 1]},
            "gguf: tokens are .* not unique",
        ),
        ({"tokens": [], "token_type": []}, "missing"),
        ({"token_type": [1]}, "1 token types"),
        ({"token_type": [9] * 268}, "token type 9"),
    ],
)
def test_an_inconsistent_vocabulary_is_refused(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(TokenizerError, match=message):
        byte_level(**changes)


def test_a_special_id_out_of_range_is_refused() -> None:
    with pytest.raises(ModelFileError, match="bos_token_id"):
        byte_level(bos_token_id=100_000)
    with pytest.raises(TokenizerError, match="stop_token_ids"):
        read_vocabulary(
            {**byte_level_metadata(), "tokenizer.p2pmoe.stop_token_ids": [268]}
        )


def test_a_table_that_rewrites_text_is_refused() -> None:
    changed = unigram_metadata(**{T + "precompiled_charsmap": [1, 2, 3]})
    with pytest.raises(TokenizerError, match="precompiled_charsmap"):
        read_vocabulary(changed)


def test_sentence_piece_and_unigrams_are_read() -> None:
    pieces = read_vocabulary(sentence_piece_metadata())
    assert pieces.kind is VocabularyKind.SENTENCE_PIECE
    assert pieces.add_bos
    assert pieces.add_space
    assert pieces.unknown_id == 0
    unigrams = read_vocabulary(
        unigram_metadata(**{T + "remove_extra_whitespaces": True})
    )
    assert unigrams.kind is VocabularyKind.UNIGRAM
    assert not unigrams.add_bos
    assert unigrams.add_eos
    assert unigrams.squeeze_spaces


def test_scores_are_one_for_each_token() -> None:
    with pytest.raises(TokenizerError, match="1 scores"):
        read_vocabulary(sentence_piece_metadata(**{T + "scores": [1.0]}))


@pytest.mark.parametrize(
    "metadata",
    [
        byte_level_metadata(),
        byte_level_metadata(**{"tokenizer.p2pmoe.ignore_merges": True}),
        byte_level_metadata(**{T + "eot_token_id": 1, T + "eom_token_id": 0}),
        byte_level_metadata(**{"tokenizer.p2pmoe.stop_token_ids": [0, 1, 2, 5]}),
        byte_level_metadata(pre="llama3", **{T + "merges": None}),
        byte_level_metadata(**{T + "bos_token_id": None, T + "add_bos_token": None}),
        sentence_piece_metadata(),
        sentence_piece_metadata(**{"tokenizer.p2pmoe.space_after_control": False}),
        sentence_piece_metadata(**{T + "add_space_prefix": False}),
        unigram_metadata(),
        unigram_metadata(**{T + "remove_extra_whitespaces": True}),
    ],
    ids=range(11),
)
def test_what_is_written_is_read_back(metadata: dict[str, object]) -> None:
    vocabulary = read_vocabulary(metadata)
    again = read_vocabulary(dict(vocabulary_metadata(vocabulary)))
    assert again == vocabulary
    assert again.digest() == vocabulary.digest()


def test_a_token_that_ends_a_turn_is_for_control_whatever_the_file_says() -> None:
    """As files of further trained Mixtrals have it: `<|im_end|>` listed as text."""
    kinds = [4, 4, 4] + [1] * (len(byte_level().texts) - 3)
    vocabulary = byte_level(token_type=kinds)
    assert vocabulary.kinds[:3] == (
        TokenKind.USER_DEFINED,
        TokenKind.USER_DEFINED,
        TokenKind.CONTROL,
    )
    assert 2 in vocabulary.stop_ids
    assert vocabulary.token_bytes(2) == b""


def test_minus_one_is_no_token() -> None:
    vocabulary = byte_level(bos_token_id=0xFFFFFFFF, add_bos_token=False)
    assert vocabulary.bos_id is None
    with pytest.raises(ModelFileError, match="bos_token_id"):
        byte_level(bos_token_id=0xFFFFFFFE)
