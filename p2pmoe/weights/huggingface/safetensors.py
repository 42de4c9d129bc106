"""The header of a safetensors file, read strictly (fault B04).

Layout: u64 length, little-endian | a JSON object of that many bytes | data. The object
maps a tensor's name to {"dtype", "shape", "data_offsets": [begin, end]}, offsets into
the data; `__metadata__`, if there, maps strings to strings. Rule for the whole: sorted,
the ranges start at 0, touch each other and end at the data's end; and each is as long
as its shape and dtype say. Numbers are Python integers, which do not wrap, and bounded
before use.

Source: the format description of the safetensors project.
"""

from dataclasses import dataclass
from enum import Enum, unique
from math import prod
from pathlib import Path

from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.errors import ModelFileError, ModelFileTruncated, another_file
from p2pmoe.weights.huggingface.strict_json import parse_object

__all__ = ["Dtype", "SafetensorsHeader", "StoredTensor", "read_safetensors"]

_MAX_HEADER_BYTES = 1 << 25  # the format allows 100 MB; a tensor takes about 130 bytes
_MAX_TENSORS = 1 << 17
_MAX_MARKS = 20 * _MAX_TENSORS  # two lists, an object and ten quotation marks each
_MAX_NAME_BYTES = 255
_MAX_DIMENSIONS = 8
_MAX_DIMENSION = 1 << 48
_MAX_START = 32  # bytes that tell what a file is, if it is none of ours
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_ENTRY_KEYS = {"dtype", "shape", "data_offsets"}


@unique
class Dtype(Enum):
    """What a tensor's values are; named as in the file."""

    BOOL = "BOOL"
    U8 = "U8"
    I8 = "I8"
    U16 = "U16"
    I16 = "I16"
    U32 = "U32"
    I32 = "I32"
    U64 = "U64"
    I64 = "I64"
    F4 = "F4"
    F6_E2M3 = "F6_E2M3"
    F6_E3M2 = "F6_E3M2"
    F8_E4M3 = "F8_E4M3"
    F8_E5M2 = "F8_E5M2"
    F8_E8M0 = "F8_E8M0"
    F8_E4M3FNUZ = "F8_E4M3FNUZ"
    F8_E5M2FNUZ = "F8_E5M2FNUZ"
    F16 = "F16"
    BF16 = "BF16"
    F32 = "F32"
    F64 = "F64"
    C64 = "C64"


# Bits of a value by the dtype's name; 8 if it is not here.
_BITS = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U16": 16,
    "I16": 16,
    "F16": 16,
    "BF16": 16,
    "U32": 32,
    "I32": 32,
    "F32": 32,
    "U64": 64,
    "I64": 64,
    "F64": 64,
    "C64": 64,
}
_DTYPES = {dtype.value: dtype for dtype in Dtype}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor as its file has it: values row by row, little-endian."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]
    offset: int  # from the start of the file
    n_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetensorsHeader:
    """A file's tensors by name; `raw` is the header as it stands, for fingerprints."""

    tensors: dict[str, StoredTensor]
    raw: bytes
    n_bytes: int  # of the file, if all its data is there


def read_safetensors(file: OpenFile, *, is_whole: bool = True) -> SafetensorsHeader:
    """Read the header at the front of `file`; if it `is_whole`, its data is there.

    Raises:
        ModelFileTruncated: the file ends before what the header promises.
        ModelFileError: a number is out of bounds, or the layout breaks the rule.
    """
    raw = _raw_header(file)
    start = _LENGTH_BYTES + len(raw)
    tensors: dict[str, StoredTensor] = {}
    for name, entry in _parse_entries(file.path, raw).items():
        tensors[name] = _tensor(file.path, name, entry, start)
    n_bytes = _check_layout(file.path, list(tensors.values()), start)
    if is_whole and file.n_bytes < n_bytes:
        reason = f"needs {n_bytes} bytes, has {file.n_bytes}"
        raise ModelFileTruncated(file.path, reason, field="data")
    if file.n_bytes > n_bytes:
        reason = f"{file.n_bytes - n_bytes} bytes behind the last tensor"
        raise ModelFileError(file.path, reason, field="data")
    return SafetensorsHeader(tensors=tensors, raw=raw, n_bytes=n_bytes)


def _parse_entries(path: Path, raw: bytes) -> dict[str, object]:
    """Return the header's tensor entries, unchecked; ModelFileError if no object."""
    entries = parse_object(path, raw, "header", max_marks=_MAX_MARKS)
    notes = entries.pop(_METADATA, {})
    if not isinstance(notes, dict) or not all(
        isinstance(text, str) for text in notes.values()
    ):
        reason = "is no object of strings"
        raise ModelFileError(path, reason, field=f"key {_METADATA!r}")
    return entries


def _raw_header(file: OpenFile) -> bytes:
    if file.n_bytes < _LENGTH_BYTES:
        reason = f"needs {_LENGTH_BYTES} bytes, has {file.n_bytes}"
        raise ModelFileTruncated(file.path, reason, field="header length")
    place = bytearray(_LENGTH_BYTES)
    file.read_into(0, memoryview(place))
    length = int.from_bytes(place, "little")
    if not 2 <= length <= _MAX_HEADER_BYTES:
        start = bytearray(min(file.n_bytes, _MAX_START))
        file.read_into(0, memoryview(start))
        reason = f"{length} is not in 2..{_MAX_HEADER_BYTES}"
        raise another_file(file.path, bytes(start), reason, field="header length")
    if _LENGTH_BYTES + length > file.n_bytes:
        reason = f"needs {_LENGTH_BYTES + length} bytes, has {file.n_bytes}"
        raise ModelFileTruncated(file.path, reason, field="header length")
    place = bytearray(length)
    file.read_into(_LENGTH_BYTES, memoryview(place))
    if place[:1] != b"{":
        raise ModelFileError(file.path, "is no JSON object", field="header")
    return bytes(place)


def _tensor(path: Path, name: str, entry: object, start: int) -> StoredTensor:
    if not name or not name.isprintable() or len(name.encode()) > _MAX_NAME_BYTES:
        raise ModelFileError(path, f"{name[:80]!r} is no tensor name", field="header")
    if not isinstance(entry, dict) or entry.keys() != _ENTRY_KEYS:
        reason = "is no object of dtype, shape and data_offsets"
        raise ModelFileError(path, reason, tensor=name, field="entry")
    dtype = entry["dtype"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        reason = f"unknown dtype {str(dtype)[:20]!r}"
        raise ModelFileError(path, reason, tensor=name, field="dtype")
    shape = _integers(path, name, "shape", entry["shape"])
    if len(shape) > _MAX_DIMENSIONS or any(size > _MAX_DIMENSION for size in shape):
        reason = f"{str(shape)[:80]} is out of bounds"
        raise ModelFileError(path, reason, tensor=name, field="shape")
    offsets = _integers(path, name, "data_offsets", entry["data_offsets"])
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        reason = f"{str(list(offsets))[:80]} is no range"
        raise ModelFileError(path, reason, tensor=name, field="data_offsets")
    begin, end = offsets
    n_bits = prod(shape) * _BITS.get(dtype, 8)
    if n_bits != 8 * (end - begin):
        reason = f"{end - begin} bytes for shape {list(shape)} of {dtype}"
        raise ModelFileError(path, reason, tensor=name, field="data_offsets")
    return StoredTensor(name, _DTYPES[dtype], shape, start + begin, end - begin)


def _integers(path: Path, name: str, field: str, value: object) -> tuple[int, ...]:
    if isinstance(value, list):
        for number in value:
            if type(number) is not int or number < 0:
                break
        else:
            return tuple(value)
    reason = f"{str(value)[:80]} is no list of integers from 0 on"
    raise ModelFileError(path, reason, tensor=name, field=field)


def _check_layout(path: Path, tensors: list[StoredTensor], start: int) -> int:
    end, before = start, "the header"
    for tensor in sorted(tensors, key=lambda one: (one.offset, one.n_bytes)):
        if tensor.offset > end:
            reason = f"leaves a hole of {tensor.offset - end} bytes behind {before}"
        elif tensor.offset < end:
            reason = f"overlaps {before}"
        else:
            end, before = end + tensor.n_bytes, f"tensor {tensor.name[:80]!r}"
            continue
        raise ModelFileError(path, reason, tensor=tensor.name, field="data_offsets")
    return end
