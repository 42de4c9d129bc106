from dataclasses import replace
from pathlib import Path

import pytest

from p2pmoe.text.errors import PretokenizerUnknown, TokenizerError
from p2pmoe.text.vocabulary import (
    TokenKind,
    Vocabulary,
    VocabularyKind,
    load_vocabulary,
)
from p2pmoe.weights.errors import ModelFileError
from tests.support.vocabularies import byte_level_metadata, vocabulary_file

T = "tokenizer.ggml."


def load(folder: Path, override: str | None = None, **changes: object) -> Vocabulary:
    changed = {T + key: value for key, value in changes.items()}
    with vocabulary_file(folder, byte_level_metadata(**changed)) as model:
        return load_vocabulary(model, override)


def test_it_is_read_from_metadata(tmp_path: Path) -> None:
    vocabulary = load(tmp_path)
    assert vocabulary.kind is VocabularyKind.BYTE_LEVEL
    assert vocabulary.pretokenizer == "gpt-2"
    assert (vocabulary.bos_id, vocabulary.eos_id, vocabulary.unknown_id) == (0, 2, None)
    assert vocabulary.add_bos
    assert not vocabulary.add_space
    assert vocabulary.stop_ids == {2}
    assert vocabulary.kinds[0] is TokenKind.CONTROL


def test_a_turn_end_that_metadata_do_not_name_stops_too(tmp_path: Path) -> None:
    assert load(tmp_path, eos_token_id=0).stop_ids == {0, 2}
    assert load(tmp_path, eos_token_id=0, eot_token_id=1).stop_ids == {0, 1, 2}


@pytest.mark.parametrize("pre", [None, "unknown-xyz"])
def test_b10_a_missing_or_unknown_pretokenizer_needs_an_override(
    tmp_path: Path, pre: str | None
) -> None:
    with pytest.raises(PretokenizerUnknown):
        load(tmp_path, pre=pre)
    assert load(tmp_path, "llama-bpe", pre=pre).pretokenizer == "llama-bpe"


def test_bytes_of_tokens(tmp_path: Path) -> None:
    vocabulary = load(tmp_path)
    by_text = {text: token for token, text in enumerate(vocabulary.texts)}
    assert vocabulary.token_bytes(by_text["<|im_end|>"]) == b""
    assert vocabulary.token_bytes(by_text["<think>"]) == b"<think>"
    assert vocabulary.token_bytes(by_text["Ġw"]) == b" w"
    assert vocabulary.token_bytes(by_text["ð"]) == b"\xf0"


def test_the_digest_changes_with_anything_that_changes_tokens(tmp_path: Path) -> None:
    vocabulary = load(tmp_path)
    assert len(vocabulary.digest()) == 32
    assert vocabulary.digest() == load(tmp_path).digest()
    changed = [
        replace(vocabulary, pretokenizer="qwen2"),
        replace(vocabulary, texts=(*vocabulary.texts[:-1], "x" * 9)),
        replace(vocabulary, merges=vocabulary.merges[::-1]),
        replace(vocabulary, add_bos=False),
        replace(vocabulary, eos_id=1),
        replace(vocabulary, kinds=(TokenKind.NORMAL, *vocabulary.kinds[1:])),
    ]
    assert len({v.digest() for v in [vocabulary, *changed]}) == len(changed) + 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "rwkv"}, "'rwkv' is unknown"),
        ({"tokens": ["a", "a"]}, "not unique"),
        ({"tokens": []}, "missing"),
        ({"tokens": ["a", "b" * 10_001]}, "a token of 10001 characters"),
        ({"token_type": [1]}, "1 token types"),
        ({"token_type": [9] * 268}, "token type 9"),
    ],
)
def test_an_inconsistent_vocabulary_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(TokenizerError, match=message):
        load(tmp_path, **changes)


def test_a_special_id_out_of_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="bos_token_id"):
        load(tmp_path, bos_token_id=100_000)


def test_a_byte_without_a_token_is_refused(tmp_path: Path) -> None:
    meta = byte_level_metadata()
    tokens = meta[T + "tokens"]
    assert isinstance(tokens, list)
    tokens[tokens.index("a")] = "aa"
    with vocabulary_file(tmp_path, meta) as model:
        with pytest.raises(TokenizerError, match="byte 0x61"):
            load_vocabulary(model)


def test_a_token_outside_the_alphabet_is_refused(tmp_path: Path) -> None:
    meta = byte_level_metadata()
    tokens = meta[T + "tokens"]
    assert isinstance(tokens, list)
    tokens[-2] = "中"
    with vocabulary_file(tmp_path, meta) as model:
        with pytest.raises(TokenizerError, match="stands for no byte"):
            load_vocabulary(model)
