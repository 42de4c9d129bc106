"""A folder's tokenizer.json gives the vocabulary and ids of its GGUF (fault B10)."""

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.text.errors import PretokenizerUnknown, TokenizerError
from p2pmoe.text.gguf_vocabulary import vocabulary_from_metadata, vocabulary_metadata
from p2pmoe.text.tokenizer import Tokenizer
from p2pmoe.text.tokenizer_json import vocabulary_from_folder
from p2pmoe.text.vocabulary import TokenKind, Vocabulary, VocabularyKind
from p2pmoe.weights.metadata import Metadata
from p2pmoe.weights.model_file import open_model
from tests.support.shared import shared_path
from tests.support.tokenizer_folders import (
    added,
    byte_level_document,
    sentence_piece_document,
    unigram_document,
    write_folder,
)

ARCHITECTURES = (
    *("deepseek_v2", "deepseek_v3", "glm4_moe", "gpt_oss", "minimax_m2", "minimax_m3"),
    *("mixtral", "olmoe", "qwen2_moe", "qwen3_moe"),
)
DOCUMENTS = {
    "byte-level": byte_level_document(),
    "sentence-piece": sentence_piece_document(),
    "unigram": unigram_document(),
}
LETTERS = st.text("helowrd é\n\u0301中", max_size=30)


def reference(document: dict[str, object]) -> tokenizers.Tokenizer:
    whole = {"version": "1.0", "decoder": None, "post_processor": None, **document}
    whole.setdefault("normalizer", None)
    tokens = whole["added_tokens"]
    assert isinstance(tokens, list)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    whole["added_tokens"] = [{**flags, **token} for token in tokens]
    return tokenizers.Tokenizer.from_str(json.dumps(whole))


@pytest.fixture(scope="module", params=DOCUMENTS)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    document = dict(DOCUMENTS[request.param])
    folder = write_folder(tmp_path_factory.mktemp("model"), document)
    document.pop("normalizer" if request.param == "byte-level" else "", None)
    return Tokenizer(vocabulary_from_folder(folder)), reference(document)


@given(LETTERS)
def test_ids_are_those_of_the_file_itself(
    both: tuple[Tokenizer, tokenizers.Tokenizer], text: str
) -> None:
    ours, theirs = both
    ids = ours.encode(text, bos=False)
    assert ours.decode(ids) == text.encode()
    unigrams = ours.vocabulary.kind is VocabularyKind.UNIGRAM
    if not (unigrams and text.startswith(" ")):  # Metaspace: " a" is "a"; not for us
        assert ids == theirs.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_written_to_a_gguf_is_read_back(name: str, tmp_path: Path) -> None:
    vocabulary = vocabulary_from_folder(write_folder(tmp_path, DOCUMENTS[name]))
    metadata = Metadata(tmp_path, vocabulary_metadata(vocabulary))
    assert vocabulary_from_metadata(metadata, tmp_path) == vocabulary


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_folder_and_its_gguf_have_one_digest(name: str) -> None:
    folder = shared_path(f"models/tiny/{name}")
    ours = vocabulary_from_folder(folder)
    with open_model(folder / "model-f32.gguf") as model:
        theirs = vocabulary_from_metadata(model.metadata, model.path)
    assert ours.texts == theirs.texts
    if name == "glm4_moe":  # its GGUF names the turns of user and observation
        assert theirs.stop_ids - ours.stop_ids == {4, 6}
    else:
        assert ours.digest() == theirs.digest()
    written = Metadata(folder, vocabulary_metadata(ours))
    assert vocabulary_from_metadata(written, folder).digest() == ours.digest()


def load(folder: Path, document: dict[str, object], **files: object) -> Vocabulary:
    return vocabulary_from_folder(write_folder(folder, document, **files))


def test_kinds_of_tokens(tmp_path: Path) -> None:
    vocabulary = load(tmp_path, byte_level_document())
    assert vocabulary.kind is VocabularyKind.BYTE_LEVEL
    assert vocabulary.kinds[:4] == (*[TokenKind.CONTROL] * 3, TokenKind.NORMAL)
    assert vocabulary.kinds[-1] is TokenKind.USER_DEFINED
    pieces = load(tmp_path, sentence_piece_document())
    assert pieces.kinds[:4] == (
        TokenKind.UNKNOWN,
        TokenKind.CONTROL,
        TokenKind.CONTROL,
        TokenKind.BYTE,
    )
    assert pieces.unknown_id == 0


def test_rows_to_spare_are_unused_tokens(tmp_path: Path) -> None:
    vocabulary = load(tmp_path, byte_level_document(), config={"vocab_size": 300})
    assert len(vocabulary.texts) == 300
    assert vocabulary.texts[-1] == "[PAD299]"
    assert vocabulary.kinds[-1] is TokenKind.UNUSED
    assert vocabulary.token_bytes(299) == b""
    tokenizer = Tokenizer(vocabulary)
    assert max(tokenizer.encode("[PAD299]", bos=False)) < 259
    nested = {"text_config": {"vocab_size": 301}}
    assert len(load(tmp_path, byte_level_document(), config=nested).texts) == 301


def test_a_vocabulary_of_next_to_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="tokens for a vocabulary of 1000000"):
        load(tmp_path, byte_level_document(), config={"vocab_size": 1_000_000})


def test_special_tokens_come_from_the_files_beside_it(tmp_path: Path) -> None:
    vocabulary = load(
        tmp_path,
        byte_level_document(),
        config={"eos_token_id": [1, 5], "bos_token_id": 7},
        tokenizer_config={
            "bos_token": {"content": "<s>"},
            "eos_token": "<|im_end|>",
            "add_bos_token": True,
        },
        generation_config={"eos_token_id": [1, 6]},
    )
    assert (vocabulary.bos_id, vocabulary.eos_id, vocabulary.add_bos) == (0, 2, True)
    assert vocabulary.stop_ids == {1, 2, 5, 6}
    ids = load(
        tmp_path,
        byte_level_document(),
        config={"eos_token_id": 1, "bos_token_id": 0},
        tokenizer_config={"bos_token": None},
    )
    assert (ids.bos_id, ids.eos_id, ids.add_bos) == (0, 1, False)


def test_bos_by_a_post_processor(tmp_path: Path) -> None:
    parts = [
        {"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ]
    template = {"type": "TemplateProcessing", "single": parts}
    nested = {"type": "Sequence", "processors": [{"type": "ByteLevel"}, template]}
    config = {"bos_token": "<s>"}
    for processor in (template, nested):
        document = byte_level_document(post_processor=processor)
        assert load(tmp_path, document, tokenizer_config=config).add_bos
        said = {**config, "add_bos_token": False}
        assert not load(tmp_path, document, tokenizer_config=said).add_bos


def test_merges_of_either_form(tmp_path: Path) -> None:
    pairs = load(tmp_path, byte_level_document())
    texts = load(tmp_path, byte_level_document(model_merges=list(pairs.merges)))
    assert texts == pairs


def test_b10_an_unknown_way_of_splitting_needs_an_override(tmp_path: Path) -> None:
    other = {"type": "Split", "pattern": {"Regex": "x+"}, "behavior": "Isolated"}
    folder = write_folder(
        tmp_path,
        byte_level_document(
            pre_tokenizer={
                "type": "Sequence",
                "pretokenizers": [
                    other,
                    {
                        "type": "ByteLevel",
                        "add_prefix_space": False,
                        "use_regex": False,
                    },
                ],
            }
        ),
    )
    with pytest.raises(PretokenizerUnknown, match="'x\\+' is none that is known"):
        vocabulary_from_folder(folder)
    assert vocabulary_from_folder(folder, "qwen2").pretokenizer == "qwen2"
    with pytest.raises(PretokenizerUnknown, match="nonsense"):
        vocabulary_from_folder(folder, "nonsense")


STRIPPING = added(0, "<s>", special=True, rstrip=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": []}, "'model' is no dict"),
        ({"model_type": "WordPiece"}, "'WordPiece' is unknown"),
        ({"model_type": 3}, "'type' is no str"),
        ({"model_vocab": {"a": "b"}}, "no int"),
        ({"model_vocab": {"a": 1 << 40}}, "too large"),
        ({"model_vocab": {"a": -1}}, "missing or too large"),
        ({"model_vocab": {"a": 9, "b": 9}, "added_tokens": []}, "two tokens have one"),
        ({"model_vocab": {}, "added_tokens": []}, "missing"),
        ({"model_merges": ["a  b"]}, "'a  b'"),
        ({"model_merges": [["a", "b", "c"]]}, "'merges' holds"),
        ({"model_merges": [["a b", "c"]]}, "holds a space"),
        ({"model_end_of_word_suffix": "</w>"}, "end_of_word_suffix"),
        ({"added_tokens": [STRIPPING]}, "swallowed spaces"),
        ({"added_tokens": [added(0, "<s>", special=True, single_word=True)]}, "single"),
        ({"added_tokens": [added(5, "<s>", special=True)]}, "not that of '<s>'"),
        ({"added_tokens": ["<s>"]}, "no list of objects"),
        ({"normalizer": {"type": "Lowercase"}}, "'Lowercase'"),
        ({"pre_tokenizer": None}, "neither byte-level nor"),
    ],
    ids=range(18),
)
def test_what_is_not_understood_is_refused(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TokenizerError, match=message):
        load(tmp_path, byte_level_document(**changes))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (sentence_piece_document(model_merges=["l l"]), "left out"),
        (sentence_piece_document(normalizer=None), "not written as"),
        (unigram_document(model_vocab=[["a", "b"]]), "something else"),
        (unigram_document(model_vocab=[["a", 0], ["a", 1]]), "one text twice"),
        (unigram_document(model_vocab=[["a", 10**400]]), "a score of 'a'"),
        (unigram_document(normalizer={"type": "Precompiled"}), "'Precompiled'"),
    ],
    ids=range(6),
)
def test_what_sentence_piece_cannot_mean_is_refused(
    document: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TokenizerError, match=message):
        load(tmp_path, document)


def test_a_token_across_a_space_where_text_is_split_is_refused(tmp_path: Path) -> None:
    document = unigram_document()
    model = document["model"]
    assert isinstance(model, dict)
    model["vocab"].append(["o▁w", -1.0])
    with pytest.raises(TokenizerError, match="crosses a space"):
        load(tmp_path, document)


def test_special_tokens_must_be_there(tmp_path: Path) -> None:
    for files in (
        {"tokenizer_config": {"eos_token": "<nothing>"}},
        {"config": {"eos_token_id": 100_000}},
    ):
        folder = tmp_path / "-".join(files)
        with pytest.raises(TokenizerError, match="not in the vocabulary"):
            load(folder, byte_level_document(), **files)


def test_no_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"no tokenizer\.json") as caught:
        vocabulary_from_folder(tmp_path)
    assert caught.value.exit_code == 2
    assert "GGUF" in caught.value.advice
