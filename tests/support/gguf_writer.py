"""A small GGUF writer for tests: whole valid files, and headers bent at one place.

`write_gguf(path, metadata, tensors)` writes a file as its format document asks for.
Metadata values choose their type: bool, int (u32, or i64 if negative, u64 if large),
float (f32), str, lists of one kind; `Raw(type, bytes)` writes anything. A tensor is
`TensorBytes(name, type, shape, data)`, shape in rows-first order (columns last).
`gguf_bytes` returns the bytes; its overrides bend single fields.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Raw", "TensorBytes", "gguf_bytes", "pack_text", "write_gguf"]

U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64 = 4, 5, 6, 7, 8, 9, 10, 11


@dataclass(frozen=True, slots=True)
class Raw:
    """A metadata value as its type number and its bytes, right or wrong."""

    type: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBytes:
    """One tensor; `offset` and `dims` bend the written values if given."""

    name: str
    type: int
    shape: tuple[int, ...]
    content: bytes
    offset: int | None = None
    n_dims: int | None = None


def pack_text(text: str | bytes) -> bytes:
    """A GGUF string: u64 length, then the bytes."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def _scalar(value: object) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        if value < 0:
            return I64, struct.pack("<q", value)
        if value >= 1 << 32:
            return U64, struct.pack("<Q", value)
        return U32, struct.pack("<I", value)
    if isinstance(value, float):
        return F32, struct.pack("<f", value)
    if isinstance(value, str):
        return TEXT, pack_text(value)
    raise TypeError(f"no GGUF type for {type(value).__name__}")


def _value(value: object) -> bytes:
    if isinstance(value, Raw):
        return struct.pack("<I", value.type) + value.body
    if isinstance(value, list):
        packed = [_scalar(item) for item in value]
        kind = packed[0][0] if packed else U32
        head = struct.pack("<IIQ", ARRAY, kind, len(packed))
        return head + b"".join(body for _, body in packed)
    kind, body = _scalar(value)
    return struct.pack("<I", kind) + body


def gguf_bytes(
    metadata: Mapping[str, object],
    tensors: Sequence[TensorBytes] = (),
    *,
    version: bytes = struct.pack("<I", 3),
    n_tensors: int | None = None,
    n_kv: int | None = None,
    alignment: int = 32,
) -> bytes:
    """Return a file's bytes; the keyword arguments bend header fields."""
    head = b"GGUF" + version
    head += struct.pack("<Q", len(tensors) if n_tensors is None else n_tensors)
    head += struct.pack("<Q", len(metadata) if n_kv is None else n_kv)
    for key, value in metadata.items():
        head += pack_text(key) + _value(value)
    body = b""
    for tensor in tensors:
        offset = len(body) if tensor.offset is None else tensor.offset
        n_dims = len(tensor.shape) if tensor.n_dims is None else tensor.n_dims
        head += pack_text(tensor.name) + struct.pack("<I", n_dims)
        head += b"".join(struct.pack("<Q", d) for d in reversed(tensor.shape))
        head += struct.pack("<IQ", tensor.type, offset)
        body += tensor.content
        body += b"\0" * (-len(body) % alignment)
    if tensors:
        head += b"\0" * (-len(head) % alignment)
    return head + body


def write_gguf(
    path: Path, metadata: Mapping[str, object], tensors: Sequence[TensorBytes] = ()
) -> Path:
    """Write a valid file, a new one whoever reads an old one, and return its path."""
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int):
        raise TypeError("general.alignment must be an int here")
    path.unlink(missing_ok=True)
    path.write_bytes(gguf_bytes(metadata, tensors, alignment=alignment))
    return path
