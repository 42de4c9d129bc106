"""Small vocabularies for tests, as GGUF metadata."""

from pathlib import Path

from p2pmoe.text.byte_alphabet import BYTE_TO_CHAR
from p2pmoe.text.gguf_vocabulary import vocabulary_from_metadata
from p2pmoe.text.vocabulary import Vocabulary
from p2pmoe.weights.metadata import Metadata
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.gguf_writer import write_gguf

__all__ = [
    "BYTE_LEVEL",
    "CONTROLS",
    "PIECES",
    "UNIGRAMS",
    "byte_level_metadata",
    "read_vocabulary",
    "sentence_piece_metadata",
    "unigram_metadata",
    "vocabulary_file",
]

CONTROLS = ["<|bos|>", "<|im_start|>", "<|im_end|>"]
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "3 3", "33 3", "333 3"]


def byte_level_metadata(
    pre: str | None = "gpt-2", **changes: object
) -> dict[str, object]:
    """All 256 bytes, a few merges, one user-defined and three control tokens."""
    merged = [merge.replace(" ", "") for merge in _MERGES]
    tokens = [*CONTROLS, *BYTE_TO_CHAR.values(), *merged, "<think>"]
    kinds = [3] * len(CONTROLS) + [1] * (256 + len(merged)) + [4]
    metadata: dict[str, object] = {
        "general.architecture": "olmoe",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": _MERGES,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": True,
    }
    if pre is not None:
        metadata["tokenizer.ggml.pre"] = pre
    metadata.update(changes)
    return {key: value for key, value in metadata.items() if value is not None}


def vocabulary_file(folder: Path, metadata: dict[str, object]) -> ModelFile:
    """Write a file that holds only this metadata, and open it."""
    return open_model(write_gguf(folder / "vocabulary.gguf", metadata))


def sentence_piece_metadata(**changes: object) -> dict[str, object]:
    """All bytes, letters, a few merges by score, a user-defined and a control token."""
    pieces = ["▁", *"helowd", "ll", "he", "▁w", "hell", "hello", "▁▁", "<sep>"]
    tokens = ["<unk>", "<s>", "</s>", *_BYTES, *pieces]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (len(pieces) - 1) + [4]
    scores = [0.0] * 259 + [-float(place) for place in range(len(pieces))]
    metadata: dict[str, object] = {
        "general.architecture": "olmoe",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    metadata.update(changes)
    return {key: value for key, value in metadata.items() if value is not None}


def unigram_metadata(
    *, with_bytes: bool = True, **changes: object
) -> dict[str, object]:
    """Unigrams: letters, words with better scores; bytes or none."""
    pieces = ["▁", *"helowrd", "▁hello", "▁world", "wor", "ld", "lo"]
    tokens = ["<pad>", "</s>", "<unk>", *(_BYTES if with_bytes else []), *pieces]
    kinds = [3, 3, 2] + [6] * (256 if with_bytes else 0) + [1] * len(pieces)
    scores = [0.0] * (len(tokens) - len(pieces)) + [-9.0] * 8 + [-4.0] * 5
    metadata: dict[str, object] = {
        "general.architecture": "olmoe",
        "tokenizer.ggml.model": "t5",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 2,
    }
    metadata.update(changes)
    return {key: value for key, value in metadata.items() if value is not None}


def read_vocabulary(
    metadata: dict[str, object], override: str | None = None
) -> Vocabulary:
    """Read metadata as if a file named "model.gguf" had them."""
    values = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in metadata.items()
    }
    here = Path("model.gguf")
    return vocabulary_from_metadata(Metadata(here, values), here, override)  # type: ignore[arg-type]


BYTE_LEVEL = read_vocabulary(byte_level_metadata())
PIECES = read_vocabulary(sentence_piece_metadata())
UNIGRAMS = read_vocabulary(unigram_metadata())
