"""The front of a GGUF file, version 3: metadata, and where each tensor will lie.

Tensors follow each other in the given order, each at a multiple of the alignment. The
types of metadata values, which readers are strict about, are chosen by value: u32 for
natural numbers, i32 in arrays and for negative ones, 64 bits where these do not
suffice, f32 unless that would change the number.

Source: the GGUF format document of ggml.
"""

import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from p2pmoe.convert.precision import PlannedTensor
from p2pmoe.weights.metadata import MetadataValue, Scalar

__all__ = ["ALIGNMENT", "front_of_file", "padded"]

ALIGNMENT: Final = 32

_VERSION = 3
_U32, _I32, _F32, _BOOL, _TEXT, _ARRAY, _U64, _I64, _F64 = 4, 5, 6, 7, 8, 9, 10, 11, 12
_FORMS: Final = {
    _U32: "<I",
    _I32: "<i",
    _F32: "<f",
    _BOOL: "<?",
    _U64: "<Q",
    _I64: "<q",
    _F64: "<d",
}


def padded(n_bytes: int) -> int:
    """Return the bytes that something takes with what fills it up."""
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


def front_of_file(
    metadata: Mapping[str, MetadataValue], tensors: Sequence[PlannedTensor]
) -> bytes:
    """Return everything before the tensor data, filled up to the alignment."""
    parts = [b"GGUF", struct.pack("<IQQ", _VERSION, len(tensors), len(metadata))]
    for key, value in metadata.items():
        parts += (_text(key), _value(value))
    sizes = (padded(tensor.n_bytes) for tensor in tensors)
    offsets = accumulate(sizes, initial=0)
    for tensor, offset in zip(tensors, offsets, strict=False):
        parts.append(_entry(tensor, offset))
    front = b"".join(parts)
    return front.ljust(padded(len(front)), b"\0")


def _entry(tensor: PlannedTensor, offset: int) -> bytes:
    dims = tuple(reversed(tensor.source.shape))
    return _text(tensor.source.name) + struct.pack(
        f"<I{len(dims)}QIQ", len(dims), *dims, int(tensor.format), offset
    )


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: MetadataValue) -> bytes:
    if not isinstance(value, tuple):
        kind = _kind([value], is_array=False)
        return struct.pack("<I", kind) + _scalar(kind, value)
    kind = _kind(value, is_array=True)
    head = struct.pack("<IIQ", _ARRAY, kind, len(value))
    return head + b"".join(_scalar(kind, item) for item in value)


def _scalar(kind: int, value: Scalar) -> bytes:
    return _text(str(value)) if kind == _TEXT else struct.pack(_FORMS[kind], value)


def _kind(values: Sequence[Scalar], *, is_array: bool) -> int:
    """Return one type that holds all values, which are of one kind."""
    first = values[0] if values else ""
    if isinstance(first, str):
        return _TEXT
    if isinstance(first, bool):
        return _BOOL
    numbers = [value for value in values if isinstance(value, int | float)]
    if any(isinstance(value, float) for value in numbers):
        return _F32 if all(map(_is_single, numbers)) else _F64
    low, high = min(numbers), max(numbers)
    if low >= -(1 << 31) and high < 1 << 31 and (is_array or low < 0):
        return _I32
    if low >= 0 and (high >= 1 << 63 or not is_array):
        return _U32 if high < 1 << 32 else _U64
    return _I64


def _is_single(value: float) -> bool:
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return False
    return bool(single == value or value != value)  # noqa: PLR0124 - nan
