import base64
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.text.errors import PretokenizerUnknown, TokenizerError
from p2pmoe.text.gguf_vocabulary import vocabulary_from_metadata, vocabulary_metadata
from p2pmoe.text.tiktoken_model import vocabulary_from_ranks
from p2pmoe.text.tokenizer import Tokenizer
from p2pmoe.text.vocabulary import TokenKind
from p2pmoe.weights.metadata import Metadata
from tests.support.tokenizer_folders import write_folder

TOKENS = [*(bytes([byte]) for byte in range(256)), b"he", b"ll", b"hell", b"lo", b"o w"]
TOKENS += [b"hello", "中".encode()[:2], "中".encode(), b" w", b"ab", b"bc", b"abc"]
RANKS = {token: rank for rank, token in enumerate(TOKENS)}
KIMI = {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}


def lines(tokens: list[bytes]) -> bytes:
    coded = (base64.b64encode(token) for token in tokens)
    return b"".join(b"%s %d\n" % (text, rank) for rank, text in enumerate(coded))


def folder_with(folder: Path, content: bytes, **config: object) -> Path:
    (folder / "tiktoken.model").write_bytes(content)
    return write_folder(folder, tokenizer_config={"auto_map": KIMI, **config})


def merged_by_rank(piece: bytes) -> list[int]:
    """Do what tiktoken does, read from its description."""
    if piece in RANKS:
        return [RANKS[piece]]
    parts = [bytes([byte]) for byte in piece]
    while True:
        joined = [RANKS.get(a + b, 1 << 30) for a, b in pairwise(parts)]
        best = min(joined, default=1 << 30)
        if best == 1 << 30:
            return [RANKS[part] for part in parts]
        at = joined.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = folder_with(tmp_path_factory.mktemp("kimi"), lines(TOKENS))
    return Tokenizer(vocabulary_from_ranks(folder))


@given(st.text("abchelo", min_size=1, max_size=12))
def test_ids_are_those_of_merging_by_rank(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text, bos=False) == merged_by_rank(text.encode())


@given(st.text("helo w中\n9", max_size=20))
def test_bytes_come_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text, bos=False)) == text.encode()


def test_special_tokens_follow_the_ranks(tmp_path: Path) -> None:
    named = {str(len(TOKENS) + 2): {"content": "<|im_end|>", "special": True}}
    more = {"added_tokens_decoder": named, "eos_token": "<|im_end|>"}
    folder = folder_with(tmp_path, lines(TOKENS), **more)
    write_folder(folder, config={"vocab_size": 600, "eos_token_id": 7})
    vocabulary = vocabulary_from_ranks(folder)
    assert vocabulary.pretokenizer == "kimi-k2"
    assert vocabulary.eos_id == len(TOKENS) + 2
    assert vocabulary.stop_ids == {len(TOKENS) + 2, 7}
    assert vocabulary.texts[len(TOKENS)] == f"<|reserved_token_{len(TOKENS)}|>"
    assert vocabulary.kinds[len(TOKENS)] is TokenKind.CONTROL
    assert vocabulary.texts[599] == "[PAD599]"
    assert vocabulary.kinds[599] is TokenKind.UNUSED
    written = Metadata(folder, vocabulary_metadata(vocabulary))
    assert vocabulary_from_metadata(written, folder) == vocabulary


def test_b10_another_program_needs_an_override(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, lines(TOKENS), auto_map=None)
    with pytest.raises(PretokenizerUnknown, match="how to split"):
        vocabulary_from_ranks(folder)
    assert vocabulary_from_ranks(folder, "gpt-4o").pretokenizer == "gpt-4o"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"!! 0\n", "line 1"),
        (b"AA== 1\n", "no next rank"),
        (b"AA==\n", "no next rank"),
        (b" 0\n", "no next rank"),
        (lines([b"a"]), "byte 0x00"),
        (lines([b"a", b"a"]), "not unique"),
        (b"x" * ((1 << 26) + 1), "more than"),
    ],
    ids=range(7),
)
def test_what_is_no_list_of_ranks_is_refused(
    content: bytes, message: str, tmp_path: Path
) -> None:
    with pytest.raises(TokenizerError, match=message):
        vocabulary_from_ranks(folder_with(tmp_path, content))


def test_special_tokens_out_of_place_are_refused(tmp_path: Path) -> None:
    for key in ("3", "x", "99999999999"):
        named = {key: {"content": "<|im_end|>"}}
        folder = folder_with(tmp_path, lines(TOKENS), added_tokens_decoder=named)
        with pytest.raises(TokenizerError, match="no id behind the ranks"):
            vocabulary_from_ranks(folder)
    folder = folder_with(tmp_path, lines(TOKENS))
    write_folder(folder, config={"eos_token_id": 100_000})
    with pytest.raises(TokenizerError, match="not in the vocabulary"):
        vocabulary_from_ranks(folder)
    with pytest.raises(TokenizerError, match="is missing"):
        vocabulary_from_ranks(tmp_path / "nowhere")
