"""The header of a GGUF file (versions 2 and 3, little-endian), read strictly.

Layout: "GGUF" | u32 version | u64 n_tensors | u64 n_kv | pairs | tensor entries |
padding to the alignment | tensor data. A pair is a key, a u32 type, a value; an entry
is a name, a u32 number of dimensions, u64 dimensions (columns first), a u32 type, a
u64 offset into the tensor data.

Every number of the file is bounded before it is used, in Python integers, which do
not wrap. Tensors lie aligned, inside the file, and overlap nowhere; names and keys
are unique. A bad entry raises; the end of the entries is their declared number, so
"bad" and "end" cannot be mistaken for each other (fault B01).

Source: the GGUF format document of ggml.
"""

import struct
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from mobile_worker.arithmetic.formats.block_format import Format, block_size
from p2pmoe.weights.cursor import Cursor
from p2pmoe.weights.errors import (
    ModelFileError,
    ModelFileTruncated,
    UnsupportedModel,
    another_file,
)
from p2pmoe.weights.metadata import MetadataValue, Scalar

__all__ = ["Header", "Tensor", "parse_header"]

_MAX_START = 32  # bytes that tell what a file is, if it is none of ours
_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_TENSORS = 1 << 17
_MAX_PAIRS = 1 << 16
_MAX_KEY_BYTES = 65_535
_MAX_NAME_BYTES = 255
_MAX_TEXT_BYTES = 1 << 24
_MAX_TEXTS = 1 << 21  # of an array; vocabularies have 2^18 tokens, 2^19 merges
_MAX_NUMBERS = 1 << 20
_MAX_ITEMS = 1 << 22  # of all arrays
_MAX_METADATA_BYTES = 1 << 27
_MAX_DIMENSIONS = 4
_MAX_DIMENSION = 1 << 48
_MAX_ALIGNMENT = 1 << 16
_MIN_PAIR_BYTES = 13  # key length, type, one byte of value
_MIN_ENTRY_BYTES = 33
_DEFAULT_ALIGNMENT = 32
_ALIGNMENT_KEY = "general.alignment"

_U32, _BOOL, _TEXT, _ARRAY = 4, 7, 8, 9
# Value type -> its struct form; 7 is bool, 8 string, 9 array.
_NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    10: "Q",
    11: "q",
    12: "d",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """Where one tensor lies; `shape` is rows first, columns (contiguous) last."""

    name: str
    format: Format
    shape: tuple[int, ...]
    offset: int  # from the start of the file
    n_bytes: int

    @property
    def n_cols(self) -> int:
        """Values in a row."""
        return self.shape[-1]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        values, size = block_size(self.format)
        return self.shape[-1] // values * size


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Everything before the tensor data, with tensors in file order.

    `n_bytes` is the size of the address space that holds all tensors; `fingerprint`,
    32 bytes, stands for the header's own bytes and that size.
    """

    metadata: dict[str, MetadataValue]
    tensors: dict[str, Tensor]
    n_bytes: int
    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    name: str
    dims: tuple[int, ...]  # columns first, as in the file
    type: int
    offset: int  # into the tensor data


def parse_header(cursor: Cursor, *, is_whole: bool = True) -> Header:
    """Read the header from the front of a file; if it `is_whole`, its data is there.

    Raises:
        ModelFileTruncated: The file ends before what the header promises.
        UnsupportedModel: A GGUF file, but of another version or byte order.
        ModelFileError: No GGUF file, or a number in it is out of bounds.
    """
    _check_start(cursor)
    n_tensors = _count(cursor, "number of tensors", _MAX_TENSORS, _MIN_ENTRY_BYTES)
    n_pairs = _count(cursor, "number of keys", _MAX_PAIRS, _MIN_PAIR_BYTES)
    metadata: dict[str, MetadataValue] = {}
    alignment = _DEFAULT_ALIGNMENT
    n_items = 0
    for number in range(n_pairs):
        key = cursor.text(f"key {number}", _MAX_KEY_BYTES)
        if not key or key in metadata:
            reason = f"{key[:80]!r} is empty or occurs twice"
            raise ModelFileError(cursor.path, reason, field=f"key {number}")
        kind = cursor.number("I", f"type of {key[:80]!r}")
        if key == _ALIGNMENT_KEY:
            alignment = _alignment(cursor, kind)
            metadata[key] = alignment
        else:
            value = _value(cursor, kind, f"key {key[:80]!r}")
            n_items += len(value) if isinstance(value, tuple) else 1
            _check_metadata(cursor, n_items, key)
            metadata[key] = value
    entries = [_entry(cursor, number) for number in range(n_tensors)]
    data_start = -(-cursor.position // alignment) * alignment
    tensors: dict[str, Tensor] = {}
    for entry in entries:
        tensor = _tensor(cursor, entry, alignment, data_start)
        if tensor.name in tensors:
            raise _bad(cursor, entry, "name", "occurs twice")
        tensors[tensor.name] = tensor
    n_bytes = _check_extents(cursor, list(tensors.values()), is_whole=is_whole)
    return Header(
        metadata=metadata,
        tensors=tensors,
        n_bytes=n_bytes,
        fingerprint=cursor.digest_before(n_bytes),
    )


def _check_metadata(cursor: Cursor, n_items: int, key: str) -> None:
    """Refuse metadata that would fill the memory, however they are cut up."""
    if n_items > _MAX_ITEMS or cursor.position > _MAX_METADATA_BYTES:
        reason = f"{n_items} values in {cursor.position} bytes of metadata"
        raise ModelFileError(cursor.path, reason, field=f"key {key[:80]!r}")


def _check_start(cursor: Cursor) -> None:
    path = cursor.path
    start = cursor.take(min(cursor.remaining, len(_MAGIC)), "magic")
    if start != _MAGIC:
        start += cursor.take(min(cursor.remaining, _MAX_START), "magic")
        raise another_file(path, start, "is no GGUF file", field="magic")
    raw = cursor.take(4, "version")
    version = int.from_bytes(raw, "little")
    if int.from_bytes(raw, "big") in _VERSIONS:
        raise UnsupportedModel(path, "is a big-endian file", field="version")
    if version not in _VERSIONS:
        reason = f"GGUF version {version} is neither 2 nor 3"
        raise UnsupportedModel(path, reason, field="version")


def _count(cursor: Cursor, field: str, limit: int, min_bytes: int) -> int:
    count = cursor.bounded("Q", field, 0, limit)
    if count * min_bytes > cursor.remaining:
        needed = cursor.position + count * min_bytes
        have = cursor.position + cursor.remaining
        reason = f"{count} of them: needs {needed} bytes, has {have}"
        raise ModelFileTruncated(cursor.path, reason, field=field)
    return count


def _alignment(cursor: Cursor, kind: int) -> int:
    field = f"key {_ALIGNMENT_KEY!r}"
    if kind != _U32:
        raise ModelFileError(cursor.path, f"has type {kind}, not u32", field=field)
    value = cursor.bounded("I", field, 1, _MAX_ALIGNMENT)
    if value & (value - 1):
        raise ModelFileError(cursor.path, f"{value} is no power of 2", field=field)
    return value


def _value(cursor: Cursor, kind: int, field: str) -> MetadataValue:
    if kind != _ARRAY:
        return _scalar(cursor, kind, field)
    item = cursor.number("I", f"{field} item type")
    limit = _MAX_TEXTS if item == _TEXT else _MAX_NUMBERS
    count = cursor.bounded("Q", f"{field} length", 0, limit)
    if item in _NUMBERS:
        form = _NUMBERS[item]
        raw = cursor.take(count * struct.calcsize(form), field)
        return struct.unpack(f"<{count}{form}", raw)
    if item == _ARRAY:
        raise ModelFileError(cursor.path, "is an array of arrays", field=field)
    if item == _TEXT:
        return cursor.texts(count, field, _MAX_TEXT_BYTES)
    if item != _BOOL:
        raise ModelFileError(cursor.path, f"unknown item type {item}", field=field)
    raw = cursor.take(count, field)
    if raw.strip(b"\0\1"):
        raise ModelFileError(cursor.path, "is neither 0 nor 1", field=field)
    return tuple(map(bool, raw))


def _scalar(cursor: Cursor, kind: int, field: str) -> Scalar:
    if kind == _TEXT:
        return cursor.text(field, _MAX_TEXT_BYTES)
    if kind == _BOOL:
        return cursor.bounded("B", field, 0, 1) == 1
    if kind not in _NUMBERS:
        raise ModelFileError(cursor.path, f"unknown type {kind}", field=field)
    form = _NUMBERS[kind]
    value: int | float
    (value,) = struct.unpack("<" + form, cursor.take(struct.calcsize(form), field))
    return value


def _entry(cursor: Cursor, number: int) -> _Entry:
    field = f"name of tensor {number}"
    name = cursor.text(field, _MAX_NAME_BYTES)
    if not name or not name.isprintable():
        raise ModelFileError(cursor.path, f"{name!r} is no name", field=field)
    try:
        n_dims = cursor.bounded("I", "number of dimensions", 1, _MAX_DIMENSIONS)
        raw = cursor.take(8 * n_dims + 12, "dimensions, type and offset")
        *dims, kind, offset = struct.unpack(f"<{n_dims}QIQ", raw)
    except ModelFileError as exc:
        error = type(exc)
        raise error(cursor.path, exc.reason, tensor=name, field=exc.field) from exc
    for place, size in enumerate(dims):
        if not 1 <= size <= _MAX_DIMENSION:
            reason = f"{size} is not in 1..{_MAX_DIMENSION}"
            field = f"dimension {place}"
            raise ModelFileError(cursor.path, reason, tensor=name, field=field)
    return _Entry(name=name, dims=tuple(dims), type=kind, offset=offset)


def _tensor(cursor: Cursor, entry: _Entry, alignment: int, data_start: int) -> Tensor:
    try:
        block_format = Format(entry.type)
    except ValueError as exc:
        raise _bad(cursor, entry, "type", f"unknown type {entry.type}") from exc
    values, size = block_size(block_format)
    if entry.dims[0] % values:
        reason = (
            f"rows of {entry.dims[0]} values are not a whole number of "
            f"{block_format.name} blocks of {values}"
        )
        raise _bad(cursor, entry, "dimension 0", reason)
    if entry.offset % alignment:
        reason = f"{entry.offset} is no multiple of {alignment}"
        raise _bad(cursor, entry, "offset", reason)
    return Tensor(
        name=entry.name,
        format=block_format,
        shape=tuple(reversed(entry.dims)),
        offset=data_start + entry.offset,
        n_bytes=prod(entry.dims) // values * size,
    )


def _check_extents(cursor: Cursor, tensors: list[Tensor], *, is_whole: bool) -> int:
    """Return the bytes that a file with these tensors has at least."""
    ordered = sorted(tensors, key=lambda tensor: tensor.offset)
    ends = [tensor.offset + tensor.n_bytes for tensor in ordered]
    needed = max(ends, default=cursor.position)
    size = cursor.position + cursor.remaining
    if is_whole and needed > size:
        cut = next(t for t, end in zip(ordered, ends, strict=True) if end > size)
        reason = f"needs {needed} bytes, has {size}"
        raise ModelFileTruncated(cursor.path, reason, tensor=cut.name, field="extent")
    for before, after in pairwise(ordered):
        if before.offset + before.n_bytes > after.offset:
            raise ModelFileError(
                cursor.path,
                f"overlaps tensor {before.name!r}",
                tensor=after.name,
                field="offset",
            )
    return needed


def _bad(cursor: Cursor, entry: _Entry, field: str, reason: str) -> ModelFileError:
    return ModelFileError(cursor.path, reason, tensor=entry.name, field=field)
