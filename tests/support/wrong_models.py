"""Model files that are wrong, each in one way, and what must be said of each.

`python -m tests.support.wrong_models FOLDER` writes them. They come from the faults
that people have met (B01, B03, B04, B05, B06, B10, B13) and from what else a path can
be; folders of safetensors are in `wrong_folders`.
"""

import os
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tests.support.gguf_writer import (
    Raw,
    TensorBytes,
    gguf_bytes,
    pack_text,
    write_gguf,
)
from tests.support.mini_m3 import MINI_METADATA, matrix, mini_tensors
from tests.support.vocabularies import byte_level_metadata
from tests.support.wrong_folders import folders, safetensors
from tests.support.wrong_model import WrongModel

__all__ = ["GOOD", "write_good", "write_wrong_models"]

GOOD = "good.gguf"
META: dict[str, object] = {
    **MINI_METADATA,
    **byte_level_metadata(),
    "general.architecture": "minimax-m3",
}
A = TensorBytes(name="a", type=0, shape=(2, 8), content=bytes(64))
B = replace(A, name="b")
_HUGE = 1 << 61


def good_tensors() -> dict[str, TensorBytes]:
    """Return the tensors of a model that can be served."""
    own = mini_tensors()
    for name in ("token_embd.weight", "output.weight"):
        own[name] = matrix(name, 288, 64)
    return own


def write_good(folder: Path) -> Path:
    """Write the model that all others are a bent copy of."""
    return write_gguf(folder / GOOD, META, list(good_tensors().values()))


def write_wrong_models(folder: Path) -> list[WrongModel]:
    """Write all wrong models below a folder, and return them."""
    makers: tuple[Callable[[Path], Iterator[WrongModel]], ...] = (
        _headers,
        _contents,
        _experts,
        _paths,
        _sets,
        safetensors,
        folders,
    )
    wrong: list[WrongModel] = []
    for make in makers:
        place = folder / make.__name__.strip("_")
        place.mkdir(parents=True)
        wrong += make(place)
    assert len({each.name for each in wrong}) == len(wrong)
    return wrong


def _bent(tensor: TensorBytes) -> bytes:
    return gguf_bytes(META, [A, tensor])


def _key(kind: int, body: bytes, key: str = "k") -> bytes:
    return gguf_bytes({"general.architecture": "x", key: Raw(kind, body)}, [A])


def _long(n: int) -> bytes:
    return struct.pack("<Q", n)


def _headers(folder: Path) -> Iterator[WrongModel]:
    """B01: numbers of the header out of all bounds."""
    whole = gguf_bytes(META, [A, B])
    front = gguf_bytes({}, [])
    cases: dict[str, tuple[bytes, str]] = {
        "empty": (b"", "is no GGUF file"),
        "three-bytes": (b"GGU", "is no GGUF file"),
        "text": (b"Once upon a time\n" * 50, "is no GGUF file"),
        "zip": (b"PK\3\4" + bytes(200), "is no GGUF file"),
        "magic-alone": (b"GGUF", "version"),
        "big-endian": (gguf_bytes(META, [A], version=b"\0\0\0\3"), "big-endian"),
        "version-1": (gguf_bytes(META, [A], version=b"\1\0\0\0"), "version 1"),
        "version-99": (gguf_bytes(META, [A], version=b"\x63\0\0\0"), "version 99"),
        "b01-n-tensors": (gguf_bytes(META, [A], n_tensors=_HUGE), "number of tensors"),
        "b01-n-keys": (gguf_bytes(META, [A], n_kv=_HUGE), "number of keys"),
        "n-tensors-within-bounds": (
            gguf_bytes(META, [A], n_tensors=100_000),
            "number of tensors: 100000 of them: needs",
        ),
        "one-key-too-many": (gguf_bytes(META, [], n_kv=len(META) + 1), "needs"),
        "b01-key-length": (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + _long(1 << 63) + bytes(99),
            "length of key 0",
        ),
        "b01-n-dims-9": (_bent(replace(B, n_dims=9)), "number of dimensions"),
        "b01-n-dims-huge": (
            _bent(replace(B, n_dims=0x7FFFFFFF)),
            "number of dimensions: 2147483647",
        ),
        "b01-dims-wrap": (
            _bent(replace(B, shape=(1 << 32, 1 << 32), content=b"")),
            "tensor 'b'",
        ),
        "b01-dims-62": (
            _bent(replace(B, shape=(2, 1 << 62), content=b"")),
            "dimension 0",
        ),
        "dim-zero": (_bent(replace(B, shape=(0, 8), content=b"")), "dimension 1"),
        "b01-alignment-0": (gguf_bytes({"general.alignment": 0}, [A]), "alignment"),
        "b01-alignment-3": (gguf_bytes({"general.alignment": 3}, [A]), "alignment"),
        "b01-alignment-int32": (
            gguf_bytes({"general.alignment": Raw(5, struct.pack("<i", 32))}, [A]),
            "has type 5, not u32",
        ),
        "alignment-huge": (
            gguf_bytes({"general.alignment": 1 << 31}, [A]),
            "alignment",
        ),
        "b01-type-250": (_bent(replace(B, type=250)), "unknown type 250"),
        "removed-type": (_bent(replace(B, type=4)), "unknown type 4"),
        "b01-offset-wraps": (_bent(replace(B, offset=(1 << 64) - 32)), "needs"),
        "offset-unaligned": (_bent(replace(B, offset=65)), "no multiple of 32"),
        "b01-ends-past-the-file": (whole[:-1], "needs"),
        "b01-overlap": (_bent(replace(B, offset=32)), "overlaps tensor 'a'"),
        "b01-same-name": (_bent(A), "occurs twice"),
        "empty-name": (_bent(replace(B, name="")), "is no name"),
        "name-steers-the-terminal": (_bent(replace(B, name="\x1b[2J")), "is no name"),
        "long-name": (_bent(replace(B, name="n" * 300)), "name of tensor 1"),
        "no-whole-blocks": (
            _bent(replace(B, type=8, shape=(1, 40), content=bytes(64))),
            "not a whole number of Q8_0 blocks",
        ),
        "key-twice": (
            front[:16] + _long(2) + 2 * (pack_text("k") + struct.pack("<II", 4, 1)),
            "occurs twice",
        ),
        "key-not-utf8": (
            front[:16] + _long(1) + pack_text(b"\xff\xfe") + struct.pack("<II", 4, 1),
            "is not UTF-8",
        ),
        "value-type-13": (_key(13, b""), "unknown type 13"),
        "bool-7": (_key(7, b"\7"), "7 is not in 0..1"),
        "huge-text": (_key(8, _long(1 << 40)), "length of"),
        "huge-array": (_key(9, struct.pack("<IQ", 4, 1 << 40)), "length"),
        "array-within-bounds": (_key(9, struct.pack("<IQ", 4, 1 << 20)), "needs"),
        "texts-within-bounds": (_key(9, struct.pack("<IQ", 8, 1 << 21)), "key 'k'"),
        "array-of-arrays": (_key(9, struct.pack("<IQIQ", 9, 1, 4, 0)), "of arrays"),
        "no-architecture": (gguf_bytes({"k": 1}, [A]), "general.architecture"),
        "architecture-is-a-number": (
            gguf_bytes({"general.architecture": 7}, [A]),
            "is no string",
        ),
        "cut-in-a-key": (whole[:100], "has 100"),
        "cut-in-the-entries": (whole[: len(gguf_bytes(META)) + 20], "needs"),
    }
    for name, (content, says) in cases.items():
        path = folder / f"{name}.gguf"
        path.write_bytes(content)
        command: Literal["inspect", "serve"] = "inspect"
        if name in {"b01-ends-past-the-file", "b01-offset-wraps", "b01-dims-wrap"}:
            command = "serve"  # to look at a header, the bytes need not be there
        yield WrongModel(name=name, path=path, says=says, command=command)


def _contents(folder: Path) -> Iterator[WrongModel]:
    """B03, B10, B13: headers that are well formed and files that are of no use."""
    nan = b"\0\0\xc0\x7f"
    own = good_tensors()

    def damaged(name: str, at: int, content: bytes) -> list[TensorBytes]:
        raw = bytearray(own[name].content)
        raw[at : at + len(content)] = content
        changed = {**own, name: replace(own[name], content=bytes(raw))}
        return list(changed.values())

    def without(name: str) -> list[TensorBytes]:
        return [tensor for tensor in own.values() if tensor.name != name]

    all_own = list(own.values())
    tokens = list(byte_level_metadata()["tokenizer.ggml.tokens"])  # type: ignore[call-overload]
    keys: dict[str, tuple[dict[str, object | None], str]] = {
        "unknown-architecture": (
            {"general.architecture": "unheard-of"},
            "architecture 'unheard-of' is not one of",
        ),
        "kimi-k3": ({"general.architecture": "kimi-k3"}, "Kimi-K3 is not run here"),
        "b10-no-pretokenizer": ({"tokenizer.ggml.pre": None}, "--pre-tokenizer"),
        "b10-unknown-pretokenizer": (
            {"tokenizer.ggml.pre": "unknown-xyz"},
            "'unknown-xyz' is unknown",
        ),
        "unknown-tokenizer": ({"tokenizer.ggml.model": "abacus"}, "'abacus'"),
        "no-tokenizer": ({"tokenizer.ggml.model": None}, "tokenizer.ggml.model"),
        "too-few-kinds": ({"tokenizer.ggml.token_type": [1, 1]}, "token types"),
        "tokens-twice": (
            {"tokenizer.ggml.tokens": [tokens[0], *tokens[:-1]]},
            "not unique",
        ),
        "bos-outside": ({"tokenizer.ggml.bos_token_id": 999_999}, "bos_token_id"),
        "layers-huge": ({"minimax-m3.block_count": 1 << 31}, "block_count"),
        "layers-none": ({"minimax-m3.block_count": None}, "block_count"),
        "more-layers-than-tensors": ({"minimax-m3.block_count": 3}, "blk.2."),
        "heads-negative": (
            {"minimax-m3.attention.head_count": Raw(5, struct.pack("<i", -1))},
            "head_count",
        ),
        "heads-zero": ({"minimax-m3.attention.head_count": 0}, "head_count"),
        "heads-uneven": ({"minimax-m3.attention.head_count_kv": 3}, "head"),
        "width-wrong": ({"minimax-m3.embedding_length": 128}, "128"),
        "top-k-of-more": ({"minimax-m3.expert_used_count": 5}, "top 5 of 4"),
        "epsilon-nan": (
            {"minimax-m3.attention.layer_norm_rms_epsilon": float("nan")},
            "layer_norm_rms_epsilon",
        ),
        "rope-base-zero": ({"minimax-m3.rope.freq_base": 0.0}, "freq_base"),
        "unknown-gating": ({"minimax-m3.expert_gating_func": 9}, "gating"),
    }
    for name, (changes, says) in keys.items():
        meta = {**META, **changes}
        kept = {key: value for key, value in meta.items() if value is not None}
        path = write_gguf(folder / f"{name}.gguf", kept, all_own)
        yield WrongModel(name=name, path=path, says=says, command="serve")
    bias, query = "blk.1.exp_probs_b.bias", "blk.0.attn_q.weight"
    tensors: dict[str, tuple[list[TensorBytes], str]] = {
        "b13-nan-bias": (damaged(bias, 4, nan), bias),
        "nan-norm": (damaged("output_norm.weight", 0, nan), "output_norm.weight"),
        "no-embeddings": (without("token_embd.weight"), "token_embd.weight"),
        "no-query": (without(query), query),
    }
    for name, (content, says) in tensors.items():
        path = write_gguf(folder / f"{name}.gguf", META, content)
        yield WrongModel(name=name, path=path, says=says, command="serve")
    cut = folder / "b03-cut.gguf"
    cut.write_bytes(gguf_bytes(META, all_own)[:-4097])
    yield WrongModel(name="b03-cut", path=cut, says="needs", command="serve")


def _experts(folder: Path) -> Iterator[WrongModel]:
    """B05: layouts of experts that contradict themselves."""
    own = good_tensors()
    up = "blk.1.ffn_up_exps.weight"
    gate = "blk.1.ffn_gate_exps.weight"
    merged = replace(matrix("m", 4, 64, 64), name="blk.1.ffn_up_gate_exps.weight")
    twice = replace(merged, name="blk.1.ffn_gate_up_exps.weight")
    odd = replace(matrix("o", 4, 63, 64), name="blk.1.ffn_gate_up_exps.weight")
    narrow = replace(matrix("n", 4, 32, 32), name=up)
    fewer = replace(matrix("f", 3, 32, 64), name=up)
    halves = {name: t for name, t in own.items() if name not in {up, gate}}
    single = replace(matrix("s", 32, 64), name="blk.1.ffn_up.0.weight")
    cases: dict[str, tuple[dict[str, TensorBytes], str]] = {
        "b05-unknown-halves": ({**halves, "m": merged}, "which half is gate"),
        "b05-gate-and-up-twice": ({**own, "m": twice}, "exist twice"),
        "b05-no-halves": ({**halves, "m": odd}, "rows have no halves"),
        "b05-no-up": ({n: t for n, t in own.items() if n != up}, up),
        "b05-narrow-up": ({**own, up: narrow}, "up of expert"),
        "b05-fewer-experts": ({**own, up: fewer}, "not [4, rows, columns]"),
        "b05-stacked-and-single": ({**own, "s": single}, "blk.1.ffn_up.0.weight"),
    }
    for name, (tensors, says) in cases.items():
        path = write_gguf(folder / f"{name}.gguf", META, list(tensors.values()))
        yield WrongModel(name=name, path=path, says=says, command="serve")


def _paths(folder: Path) -> Iterator[WrongModel]:
    """Whatever a path can lead to that is no model."""
    (folder / "loop.gguf").symlink_to("loop.gguf")
    (folder / "dangling.gguf").symlink_to("nowhere.gguf")
    os.mkfifo(folder / "pipe.gguf")
    (folder / "device.gguf").symlink_to("/dev/zero")
    (folder / "nothing").mkdir()
    two = folder / "two"
    two.mkdir()
    for name in ("a.gguf", "b.gguf"):
        write_gguf(two / name, META, list(good_tensors().values()))
    pickled = folder / "pickled"
    pickled.mkdir()
    (pickled / "config.json").write_text("{}")
    (pickled / "pytorch_model.bin").write_bytes(b"PK")
    cases = {
        "loop": ("loop.gguf", "cannot be opened"),
        "dangling": ("dangling.gguf", "cannot be opened"),
        "absent": ("absent.gguf", "cannot be opened"),
        "pipe": ("pipe.gguf", "no regular file"),
        "device": ("device.gguf", "no regular file"),
        "empty-folder": ("nothing", "nothing"),
        "two-models": ("two", "a.gguf"),
        "pickled": ("pickled", "pickled"),
        "long-path": ("x" * 300, "cannot be"),
    }
    for name, (own, says) in cases.items():
        yield WrongModel(name=name, path=folder / own, says=says)


def _sets(folder: Path) -> Iterator[WrongModel]:
    """Split sets that are not whole, or not one."""

    def part(number: int, count: int, tensors: list[TensorBytes], total: int) -> bytes:
        split: dict[str, object] = {
            "split.no": number,
            "split.count": count,
            "split.tensors.count": total,
        }
        meta = {**META, **split} if number == 0 else split
        return gguf_bytes(meta, tensors)

    def write(name: str, *parts: bytes, count: int) -> Path:
        place = folder / name
        place.mkdir()
        first = place / f"m-00001-of-{count:05d}.gguf"
        for number, content in enumerate(parts):
            path = place / f"m-{number + 1:05d}-of-{count:05d}.gguf"
            if content:
                path.write_bytes(content)
        return first

    first = part(0, 2, [A], 2)
    nameless = folder / "nameless.gguf"
    nameless.write_bytes(first)
    other = gguf_bytes(
        {
            "general.architecture": "olmoe",
            "split.no": 1,
            "split.count": 2,
            "split.tensors.count": 2,
        },
        [B],
    )
    cases: dict[str, tuple[Path, str]] = {
        "set-lacks-a-part": (
            write("lacks", part(0, 3, [A], 2), b"", part(2, 3, [B], 2), count=3),
            "m-00002-of-00003.gguf",
        ),
        "set-of-a-foreign-part": (write("foreign", first, other, count=2), "m-00002"),
        "set-with-a-tensor-twice": (
            write("twice", first, part(1, 2, [A], 2), count=2),
            "'a'",
        ),
        "set-with-too-few-tensors": (
            write("few", part(0, 2, [A], 5), part(1, 2, [B], 5), count=2),
            "5",
        ),
        "set-with-a-number-twice": (
            write("number", first, part(0, 2, [B], 2), count=2),
            "split.no",
        ),
        "set-of-another-count": (
            write("count", part(0, 3, [A], 2), part(1, 3, [B], 2), count=2),
            "its name says 2",
        ),
        "set-without-names": (nameless, "name does not say which"),
        "set-of-too-many": (
            write("many", part(0, 60_000, [A], 2), count=60_000),
            "split.count",
        ),
        "set-with-a-cut-part": (
            write("cut", first, part(1, 2, [B], 2)[:40], count=2),
            "m-00002-of-00002.gguf",
        ),
    }
    for name, (path, says) in cases.items():
        yield WrongModel(name=name, path=path, says=says)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    write_good(target)
    for each in write_wrong_models(target):
        print(each.command, each.path)
