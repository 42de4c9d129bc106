"""Fault B04: every header that breaks the format's rule is refused, and says how."""

import contextlib
import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.errors import ModelFileError, ModelFileTruncated
from p2pmoe.weights.huggingface.safetensors import (
    Dtype,
    SafetensorsHeader,
    read_safetensors,
)
from tests.support.safetensors_folder import f32, safetensors_bytes, u8

GOOD = safetensors_bytes({"a": f32(np.arange(6).reshape(2, 3)), "b": u8([1, 2])})


def file_bytes(header: object, n_data: int = 0, raw: bytes | None = None) -> bytes:
    text = raw if raw is not None else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(n_data)


def entry(
    begin: object, end: object, *, shape: Any = None, dtype: object = "U8"
) -> Any:
    if shape is None and isinstance(begin, int) and isinstance(end, int):
        shape = [end - begin]
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def with_length(length: int) -> bytes:
    return length.to_bytes(8, "little") + GOOD[8:]


CASES = {
    "length_0": (with_length(0), "header length: 0 is not in"),
    "length_2_63": (with_length(1 << 63), r"header length: .* is not in"),
    "length_over_100_mb": (with_length(100_000_001), "100000001 is not in"),
    "length_to_the_end": (with_length(len(GOOD) - 7), "needs .* bytes, has"),
    "length_into_data": (with_length(len(GOOD) - 8), "header: is no"),
    "too_many_marks": (
        file_bytes(None, raw=b'{"a":[' + b"[]," * 1_400_000 + b"0]}"),
        "has more than 2621440 brackets",
    ),
    "no_length": (b"\x08\0\0", "needs 8 bytes, has 3"),
    "offsets_backwards": (file_bytes({"a": entry(8, 0, shape=[8])}, 8), "is no range"),
    "one_range_twice": (
        file_bytes({"k_proj": entry(0, 8), "v_proj": entry(0, 8)}, 8),
        "tensor 'v_proj', data_offsets: overlaps tensor 'k_proj'",
    ),
    "half_overlap": (
        file_bytes({"a": entry(0, 8), "b": entry(4, 12)}, 12),
        "'b', data_offsets: overlaps tensor 'a'",
    ),
    "hole": (
        file_bytes({"a": entry(0, 8), "b": entry(24, 32)}, 32),
        "'b', data_offsets: leaves a hole of 16 bytes behind tensor 'a'",
    ),
    "hole_in_front": (file_bytes({"a": entry(8, 16)}, 16), "hole of 8 bytes"),
    "bytes_behind": (file_bytes({"a": entry(0, 8)}, 12), "4 bytes behind the last"),
    "cut": (GOOD[:-1], "needs .* bytes, has"),
    "past_the_end": (file_bytes({"a": entry(0, 1 << 40)}, 8), "needs .* bytes, has"),
    "twice": (
        file_bytes(None, 8, b'{"a": {"dtype": "U8"}, "a": {}}'),
        "duplicate key 'a'",
    ),
    "list": (file_bytes([1, 2]), "header: is no JSON object"),
    "leading_space": (file_bytes(None, 0, b" {}"), "header: is no JSON object"),
    "float_offset": (file_bytes({"a": entry(0.0, 8, shape=[8])}, 8), "no list of int"),
    "text_offset": (file_bytes({"a": entry("0", 8, shape=[8])}, 8), "no list of int"),
    "true_offset": (file_bytes({"a": entry(True, 9, shape=[8])}, 9), "no list of int"),
    "negative_offset": (
        file_bytes({"a": entry(-8, 0, shape=[8])}, 8),
        "no list of integers from 0",
    ),
    "huge_offset": (
        file_bytes({"a": entry(0, 10**4000, shape=[10**4000])}, 8),
        "'a', shape: .* out of bounds",
    ),
    "infinite_offset": (
        file_bytes(
            None, 8, b'{"a": {"dtype":"U8","shape":[8],"data_offsets":[0,1e999]}}'
        ),
        "too large",
    ),
    "three_offsets": (
        file_bytes({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 4, 8]}}, 8),
        "is no range",
    ),
    "nan": (file_bytes({"a": entry(0, float("nan"), shape=[8])}, 8), "holds NaN"),
    "dtype": (file_bytes({"a": entry(0, 8, dtype="F33")}, 8), "dtype: unknown .*F33"),
    "dtype_is_number": (file_bytes({"a": entry(0, 8, dtype=32)}, 8), "unknown dtype"),
    "shape_too_large": (
        file_bytes({"a": entry(0, 4, shape=[1000, 1000], dtype="F32")}, 4),
        "4 bytes for shape .1000, 1000. of F32",
    ),
    "shape_wraps": (
        file_bytes({"a": entry(0, 0, shape=[1 << 32, 1 << 32], dtype="F32")}),
        "0 bytes for shape",
    ),
    "dimension": (file_bytes({"a": entry(0, 0, shape=[1 << 49, 0])}), "out of bounds"),
    "dimensions": (file_bytes({"a": entry(0, 1, shape=[1] * 9)}, 1), "out of bounds"),
    "shape_is_object": (file_bytes({"a": entry(0, 8, shape={})}, 8), "no list of int"),
    "half_bytes": (
        file_bytes({"a": entry(0, 2, shape=[3], dtype="F4")}, 2),
        "2 bytes for shape .3. of F4",
    ),
    "entry_is_list": (file_bytes({"a": [0, 8]}, 8), "'a', entry: is no object"),
    "entry_lacks_shape": (
        file_bytes({"a": {"dtype": "U8", "data_offsets": [0, 8]}}, 8),
        "'a', entry: is no object",
    ),
    "entry_has_more": (file_bytes({"a": {**entry(0, 8), "x": 1}}, 8), "'a', entry"),
    "no_name": (file_bytes({"": entry(0, 8)}, 8), "'' is no tensor name"),
    "name_with_nul": (file_bytes({"a\0": entry(0, 8)}, 8), "is no tensor name"),
    "long_name": (file_bytes({"a" * 300: entry(0, 8)}, 8), "is no tensor name"),
    "lone_surrogate": (
        file_bytes(None, 8, b'{"\\ud800": {}}'),
        "half a surrogate pair",
    ),
    "notes_are_numbers": (file_bytes({"__metadata__": {"a": 1}}), "object of strings"),
    "deep": (file_bytes(None, 0, b'{"a":' * 200_000), "nested too deeply"),
}


def read(path: Path, *, is_whole: bool = True) -> SafetensorsHeader:
    file = OpenFile(path)
    try:
        return read_safetensors(file, is_whole=is_whole)
    finally:
        file.close()


@pytest.mark.parametrize("name", CASES)
def test_b04_malformed_headers_are_refused(name: str, tmp_path: Path) -> None:
    content, message = CASES[name]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_a_good_header_says_where_tensors_lie(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(GOOD)
    header = read(path)
    start = len(GOOD) - 26
    assert [
        (t.name, t.dtype, t.shape, t.offset - start) for t in header.tensors.values()
    ] == [
        ("a", Dtype.F32, (2, 3), 0),
        ("b", Dtype.U8, (2,), 24),
    ]
    assert header.n_bytes == len(GOOD)
    assert sum(t.n_bytes for t in header.tensors.values()) == 26


def test_order_notes_spaces_and_empty_tensors_are_as_the_format_has_them(
    tmp_path: Path,
) -> None:
    entries = {
        "late": entry(4, 8, shape=[2], dtype="BF16"),
        "__metadata__": {"format": "pt"},
        "none": entry(4, 4, shape=[0, 5]),
        "scalar": entry(0, 4, shape=[], dtype="F32"),
    }
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_bytes(None, 8, json.dumps(entries).encode() + b"   "))
    header = read(path)
    assert list(header.tensors) == ["late", "none", "scalar"]
    assert header.tensors["none"].n_bytes == 0


def test_a_header_without_its_data_is_read_if_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(GOOD[:-26])
    with pytest.raises(ModelFileTruncated, match=r"needs .* bytes, has"):
        read(path)
    assert read(path, is_whole=False).n_bytes == len(GOOD)


@given(data=st.data())
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_b04_no_flipped_byte_escapes(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    with contextlib.suppress(ModelFileError):
        read(path)
