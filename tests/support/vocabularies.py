"""Small vocabularies for tests, as GGUF metadata."""

from pathlib import Path

from p2pmoe.text.byte_alphabet import BYTE_TO_CHAR
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.gguf_writer import write_gguf

__all__ = ["CONTROLS", "byte_level_metadata", "vocabulary_file"]

CONTROLS = ["<|bos|>", "<|im_start|>", "<|im_end|>"]
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
