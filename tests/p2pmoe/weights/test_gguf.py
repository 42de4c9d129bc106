"""Fault B01: every malformed header is refused with file, tensor and field named."""

import contextlib
import resource
import struct
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.errors import ModelFileError, ModelFileTruncated, UnsupportedModel
from p2pmoe.weights.model_file import open_model
from tests.support.gguf_writer import (
    Raw,
    TensorBytes,
    gguf_bytes,
    pack_text,
    write_gguf,
)
from tests.support.shared import shared_path

A = TensorBytes(name="a", type=Format.F32, shape=(2, 8), content=bytes(64))
B = TensorBytes(name="b", type=Format.Q8_0, shape=(3, 32), content=bytes(102))
META = {"general.architecture": "olmoe", "n": 3}
GOOD = gguf_bytes(META, [A, B])


def with_meta(key: str, value: object) -> bytes:
    return gguf_bytes({**META, key: value}, [A, B])


MANY_NUMBERS = Raw(9, struct.pack("<IQ", 0, 1 << 20) + bytes(1 << 20))

# name, bytes, what the message must name (tensor or field)
CASES = {
    "n_tensors": (gguf_bytes(META, [A], n_tensors=1 << 61), "number of tensors"),
    "n_tensors_more_than_fit": (
        gguf_bytes(META, [A], n_tensors=100_000),
        "number of tensors",
    ),
    "n_kv": (gguf_bytes(META, [A], n_kv=1 << 61), "number of keys"),
    "key_length": (
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 63) + bytes(64),
        "length of key 0",
    ),
    "value_length": (with_meta("k", Raw(8, struct.pack("<Q", 1 << 62))), "key 'k'"),
    "array_length": (
        with_meta("k", Raw(9, struct.pack("<IQ", 4, 1 << 61))),
        "key 'k' length",
    ),
    "array_of_texts_length": (
        with_meta("k", Raw(9, struct.pack("<IQ", 8, 1 << 21))),
        "key 'k'",
    ),
    "array_of_arrays": (with_meta("k", Raw(9, struct.pack("<IQ", 9, 1))), "key 'k'"),
    "array_item_type": (with_meta("k", Raw(9, struct.pack("<IQ", 99, 1))), "key 'k'"),
    "array_of_too_many_numbers": (
        with_meta("k", Raw(9, struct.pack("<IQ", 0, (1 << 20) + 1) + bytes(1 << 21))),
        "key 'k' length",
    ),
    "arrays_of_too_many_numbers": (
        gguf_bytes({**META, **dict.fromkeys("klmnop", MANY_NUMBERS)}, [A]),
        "4194305 values in",
    ),
    "array_of_bools_of_two": (
        with_meta("k", Raw(9, struct.pack("<IQ", 7, 3) + b"\1\2\0")),
        "key 'k': is neither 0 nor 1",
    ),
    "long_key": (
        with_meta("k" * 65_535, Raw(9, struct.pack("<IQ", 99, 1))),
        "kk': unknown item type 99",
    ),
    "value_type": (with_meta("k", Raw(13, b"")), "key 'k'"),
    "bool_of_two": (with_meta("k", Raw(7, b"\x02")), "key 'k'"),
    "key_not_utf8": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pack_text(b"\xff") + bytes(64),
        "key 0",
    ),
    "n_dims_9": (gguf_bytes(META, [replace(A, n_dims=9), B]), "tensor 'a', number of"),
    "n_dims_0": (gguf_bytes(META, [replace(A, n_dims=0), B]), "tensor 'a', number of"),
    "n_dims_huge": (
        gguf_bytes(META, [replace(A, n_dims=0x7FFFFFFF), B]),
        "tensor 'a', number of dimensions",
    ),
    "dims_2_32": (gguf_bytes(META, [replace(A, shape=(1 << 32, 1 << 32))]), "'a'"),
    "dims_2_62": (
        gguf_bytes(META, [replace(A, shape=(2, 1 << 62))]),
        "tensor 'a', dimension 0",
    ),
    "dims_0": (gguf_bytes(META, [replace(A, shape=(0, 8))]), "tensor 'a', dimension 1"),
    "alignment_0": (with_meta("general.alignment", 0), "general.alignment"),
    "alignment_3": (with_meta("general.alignment", 3), "general.alignment"),
    "alignment_int32": (
        with_meta("general.alignment", Raw(5, struct.pack("<i", 32))),
        "general.alignment",
    ),
    "alignment_huge": (with_meta("general.alignment", 1 << 31), "general.alignment"),
    "type_250": (gguf_bytes(META, [A, replace(B, type=250)]), "tensor 'b', type"),
    "type_removed": (gguf_bytes(META, [A, replace(B, type=4)]), "tensor 'b', type"),
    "offset_wraps": (
        gguf_bytes(META, [A, replace(B, offset=(1 << 64) - 32)]),
        "tensor 'b'",
    ),
    "offset_unaligned": (
        gguf_bytes(META, [A, replace(B, offset=65)]),
        "tensor 'b', of",
    ),
    "one_byte_past_the_end": (gguf_bytes(META, [A, B])[: -(32 - 102 % 32) - 1], "'b'"),
    "overlap": (gguf_bytes(META, [A, replace(B, offset=32)]), "tensor 'b', offset"),
    "same_place": (gguf_bytes(META, [A, replace(A, name="c", offset=0)]), "offset"),
    "same_name": (gguf_bytes(META, [A, replace(B, name="a")]), "tensor 'a', name"),
    "same_key": (
        gguf_bytes({"k": 1}).replace(
            struct.pack("<QQ", 0, 1), struct.pack("<QQ", 0, 2), 1
        )
        + pack_text("k")
        + struct.pack("<II", 4, 1),
        "key 1",
    ),
    "no_name": (gguf_bytes(META, [replace(A, name="")]), "name of tensor 0"),
    "name_too_long": (
        gguf_bytes(META, [replace(A, name="n" * 256)]),
        "name of tensor 0",
    ),
    "name_with_control": (
        gguf_bytes(META, [replace(A, name="a\x1b[2J")]),
        "name of tensor 0",
    ),
    "row_within_a_block": (
        gguf_bytes(META, [replace(B, shape=(3, 1000), content=bytes(4000))]),
        "tensor 'b', dimension 0",
    ),
    "big_endian": (gguf_bytes(META, version=b"\0\0\0\3"), "big-endian"),
    "version_1": (gguf_bytes(META, version=b"\1\0\0\0"), "version 1"),
    "version_9": (gguf_bytes(META, version=b"\x09\0\0\0"), "version 9"),
    "other_magic": (b"GGML" + GOOD[4:], "magic"),
    "empty": (b"", "magic"),
    "only_magic": (b"GGUF", "version"),
}


@pytest.mark.parametrize("case", CASES)
def test_b01_is_refused(tmp_path: Path, case: str) -> None:
    content, named = CASES[case]
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    with pytest.raises(ModelFileError) as caught:
        open_model(path)
    assert time.process_time() - start < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 50_000  # KiB
    assert str(path) in str(caught.value)
    assert named in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 400
    assert caught.value.exit_code == 2


def test_b01_a_valid_file_loads_all_that_it_declares(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "good.gguf", META, [A, B])
    with open_model(path) as model:
        assert list(model.tensors) == ["a", "b"]
        assert sum(t.n_bytes for t in model.tensors.values()) == 64 + 102
        assert dict(model.metadata) == META
        tensor = model.tensors["b"]
        assert (tensor.shape, tensor.n_cols, tensor.row_bytes) == ((3, 32), 32, 34)


def test_every_type_of_value_is_read(tmp_path: Path) -> None:
    values = {
        "u8": Raw(0, b"\xff"),
        "i8": Raw(1, b"\xff"),
        "u16": Raw(2, b"\xff\xff"),
        "i16": Raw(3, b"\xff\xff"),
        "u32": 7,
        "i32": Raw(5, struct.pack("<i", -7)),
        "f32": 0.5,
        "bool": True,
        "text": "é",
        "u64": 1 << 40,
        "i64": -(1 << 40),
        "f64": Raw(12, struct.pack("<d", 0.1)),
        "numbers": [1, 2, 3],
        "texts": ["a", ""],
        "flags": [True, False],
        "none": [],
    }
    with open_model(write_gguf(tmp_path / "f", values)) as model:
        assert dict(model.metadata) == {
            "u8": 255,
            "i8": -1,
            "u16": 65535,
            "i16": -1,
            "u32": 7,
            "i32": -7,
            "f32": 0.5,
            "bool": True,
            "text": "é",
            "u64": 1 << 40,
            "i64": -(1 << 40),
            "f64": 0.1,
            "numbers": (1, 2, 3),
            "texts": ("a", ""),
            "flags": (True, False),
            "none": (),
        }


def test_version_2_and_another_alignment_are_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    meta = {**META, "general.alignment": 128}
    version = struct.pack("<I", 2)
    path.write_bytes(gguf_bytes(meta, [A, B], version=version, alignment=128))
    with open_model(path) as model:
        assert model.tensors["a"].offset % 128 == 0
        assert model.tensors["b"].offset == model.tensors["a"].offset + 128


def test_kinds_of_refusal_can_be_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(CASES["version_1"][0])
    with pytest.raises(UnsupportedModel):
        open_model(path)
    path.write_bytes(GOOD[:-50])
    with pytest.raises(ModelFileTruncated):
        open_model(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(GOOD) - 1), st.binary(max_size=9), st.integers(0, len(GOOD)))
def test_a_bent_file_raises_only_the_domain_error(
    tmp_path: Path, at: int, patch: bytes, length: int
) -> None:
    bent = bytearray(GOOD[:length] if length > at else GOOD)
    bent[at : at + len(patch)] = patch
    path = tmp_path / "bent.gguf"
    path.write_bytes(bytes(bent))
    with contextlib.suppress(ModelFileError):
        open_model(path).close()


def test_it_reads_what_the_reference_reads() -> None:
    import gguf

    path = shared_path("models/pocket/pocket-q4_k_m.gguf")
    theirs = gguf.GGUFReader(path)
    with open_model(path) as model:
        assert len(model.tensors) == len(theirs.tensors)
        for tensor in theirs.tensors:
            ours = model.tensors[tensor.name]
            assert ours.shape == tuple(int(d) for d in reversed(tensor.shape))
            assert ours.offset == tensor.data_offset
            assert ours.n_bytes == tensor.n_bytes
            assert ours.format == tensor.tensor_type
        for key, field in theirs.fields.items():
            if not key.startswith("GGUF."):
                ours = model.metadata[key]
                ours = list(ours) if isinstance(ours, tuple) else ours
                assert ours == field.contents()
