"""Model files that are cut, foreign or malicious, given to the real `serve`."""

import json
import os
import struct
from pathlib import Path

import pytest

from p2pmoe.weights.model_file import open_model
from tests.support.command_line import Outcome, assert_one_error, run_all
from tests.support.gguf_writer import Raw, TensorBytes, gguf_bytes, write_gguf
from tests.support.mini_m3 import MINI_METADATA, mini_tensors
from tests.support.vocabularies import byte_level_metadata

POCKET = Path(__file__).resolve().parents[2] / "p2pmoe/models/pocket-q4_0.gguf"
SIZE = POCKET.stat().st_size
A = TensorBytes(name="a", type=0, shape=(2, 8), content=bytes(64))
META = {"general.architecture": "minimax-m3"}


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}})
    return struct.pack("<Q", len(header)) + header.encode() + bytes(16)


# name: bytes, what the line must say beside the file's name
CASES: dict[str, tuple[bytes, str]] = {
    "cut-by-4097": (
        POCKET.read_bytes()[:-4097],
        f"needs {SIZE} bytes, has {SIZE - 4097}",
    ),
    "cut-in-the-header": (POCKET.read_bytes()[:100], "has 100"),
    "text": (b"Once upon a time\n" * 100, "is no GGUF file"),
    "safetensors": (safetensors(), "is no GGUF file"),
    "other-architecture": (
        gguf_bytes({"general.architecture": "mamba"}, [A]),
        "architecture 'mamba' is not one of: deepseek2, glm4moe",
    ),
    "b01-n-tensors": (gguf_bytes(META, [A], n_tensors=1 << 61), "number of tensors"),
    "b01-wrapping-dims": (
        gguf_bytes(
            META, [TensorBytes(name="a", type=0, shape=(1 << 32, 1 << 32), content=b"")]
        ),
        "tensor 'a'",
    ),
    "escapes-in-the-name": (
        gguf_bytes({"general.architecture": "\x1b[2J\nx"}, [A]),
        "architecture '\\x1b[2J\\nx'",
    ),
}
# keys of a model that could run, one bent: what the line must say
BENT: dict[str, tuple[dict[str, object], str]] = {
    "no-pretokenizer": ({"tokenizer.ggml.pre": None}, "--pre-tokenizer"),
    "more-tokens-than-embeddings": ({}, "embeddings"),
    "too-many-layers": ({"minimax-m3.block_count": 1 << 31}, "block_count"),
    "negative-heads": (
        {"minimax-m3.attention.head_count": Raw(5, struct.pack("<i", -1))},
        "head_count",
    ),
}


# tensor of the demo model whose first scale becomes infinite: what the line must say
DAMAGED: dict[str, tuple[str, str]] = {
    "no-number-in-attention": (
        "blk.2.attn_q.weight",
        "tensor 'blk.2.attn_q.weight': row 0 of a",
    ),
    "no-number-in-an-expert": ("blk.3.ffn_up_exps.weight", "up of expert 3.0: row 0"),
}


def damaged(tensor: str) -> bytes:
    """Return the demo model with an infinite scale at the start of a tensor."""
    with open_model(POCKET) as model_file:
        offset = model_file.tensor(tensor).offset
    raw = bytearray(POCKET.read_bytes())
    raw[offset : offset + 2] = b"\0\x7c"
    return bytes(raw)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    folder = tmp_path_factory.mktemp("models")
    for name, (content, _) in CASES.items():
        (folder / f"{name}.gguf").write_bytes(content)
    for name, (keys, _) in BENT.items():
        meta = {**MINI_METADATA, **byte_level_metadata(), **META, **keys}
        kept = {key: value for key, value in meta.items() if value is not None}
        write_gguf(folder / f"{name}.gguf", kept, list(mini_tensors().values()))
    for name, (tensor, _) in DAMAGED.items():
        (folder / f"{name}.gguf").write_bytes(damaged(tensor))
    os.mkfifo(folder / "pipe.gguf")
    names = [*CASES, *BENT, *DAMAGED, "pipe", "absent"]
    return run_all(
        {
            name: (
                "serve",
                str(folder / f"{name}.gguf"),
                "--listen",
                "127.0.0.1:0",
                "--data",
                str(folder / f"{name}.data"),
            )
            for name in names
        }
    )


@pytest.mark.parametrize("name", CASES)
def test_a_file_that_is_none_is_refused_before_anything_listens(
    outcomes: dict[str, Outcome], name: str
) -> None:
    outcome = outcomes[name]
    assert_one_error(outcome, f"{name}.gguf", CASES[name][1])
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("name", BENT)
def test_a_model_that_contradicts_itself_is_refused(
    outcomes: dict[str, Outcome], name: str
) -> None:
    assert_one_error(outcomes[name], BENT[name][1])


@pytest.mark.parametrize("name", DAMAGED)
def test_weights_that_are_no_numbers_are_refused_and_named(
    outcomes: dict[str, Outcome], name: str
) -> None:
    assert_one_error(outcomes[name], f"{name}.gguf", DAMAGED[name][1])


def test_what_is_no_file_is_refused(outcomes: dict[str, Outcome]) -> None:
    assert_one_error(outcomes["pipe"], "pipe.gguf", "no regular file")
    assert_one_error(outcomes["absent"], "absent.gguf", "cannot be opened")
