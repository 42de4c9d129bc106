"""The kinds of value that a message field may have, each with its check.

A `HeaderKind` lives in the msgpack header; `check` takes the value as it is in the
dataclass and as it came off the wire alike. A `BodyKind` lies behind the header:
`pack` gives `[dtype, dimensions...]` and the bytes, `unpack` the value again from
dimensions and bytes whose lengths agree already. An empty value is left out.

Every refusal is a `MessageError`; the field's name is added by the caller.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from ledger.prices import MAX_PRICE_TABLE_BYTES
from mobile_worker.errors import MessageError
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.envelope import Dtype

__all__ = [
    "DIGEST",
    "FLAG",
    "I63",
    "LEASE_ID",
    "NONCE",
    "PEER",
    "PRICE_TABLE",
    "RECORD",
    "SIGNATURE",
    "TAB",
    "U8",
    "U16",
    "U32",
    "U64",
    "BodyKind",
    "Bytes",
    "Counts",
    "Experts",
    "Flag",
    "HeaderKind",
    "Integer",
    "Kind",
    "Packed",
    "Rows",
    "Text",
    "Versions",
    "pack_words",
    "unpack_words",
]

_MAX_COUNTS = 1 << 20
Packed: TypeAlias = tuple[list[int], bytes]  # [dtype, dimensions...] and the bytes


@runtime_checkable
class HeaderKind(Protocol):
    """A value inside the header."""

    def check(self, value: object) -> object:
        """Return the value if it is of this kind, else raise MessageError."""
        ...


@runtime_checkable
class BodyKind(Protocol):
    """A value behind the header."""

    @property
    def dtype(self) -> Dtype:
        """The one dtype that this field may have."""
        ...

    def pack(self, value: object) -> Packed | None:
        """Return dtype, dimensions and bytes; None leaves the field out."""
        ...

    def unpack(self, dimensions: Sequence[int], raw: memoryview) -> object:
        """Return the value; `dimensions` is empty where the field was left out."""
        ...


Kind: TypeAlias = HeaderKind | BodyKind


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer from 0 to `maximum`."""

    maximum: int

    def check(self, value: object) -> object:
        """Refuse booleans, floats and what is out of range."""
        if type(value) is int and 0 <= value <= self.maximum:
            return value
        if not isinstance(value, int) or isinstance(value, bool):
            raise MessageError(f"{value!r:.40} is no integer")
        if not 0 <= value <= self.maximum:
            raise MessageError(f"{value!r:.40} is not in 0..{self.maximum}")
        return value


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean."""

    def check(self, value: object) -> object:
        """Refuse everything but true and false."""
        if value is not True and value is not False:
            raise MessageError(f"{value!r:.40} is no boolean")
        return value


@dataclass(frozen=True, slots=True)
class Text:
    """A string of at most `max_bytes` bytes of UTF-8."""

    max_bytes: int

    def check(self, value: object) -> object:
        """Refuse what is no string or too long."""
        if not isinstance(value, str):
            raise MessageError(f"{value!r:.40} is no string")
        if len(value.encode("utf-8", "surrogatepass")) > self.max_bytes:
            raise MessageError(f"a string longer than {self.max_bytes} bytes")
        return value


@dataclass(frozen=True, slots=True)
class Bytes:
    """Short bytes in the header: one of the given lengths, or 0 to `max_length`."""

    lengths: tuple[int, ...] = ()
    max_length: int = 0

    def check(self, value: object) -> object:
        """Refuse what is no bytes or of another length."""
        if type(value) is bytes and len(value) in self.lengths:
            return value
        if not isinstance(value, bytes):
            raise MessageError(f"{value!r:.40} is not bytes")
        allowed = self.lengths or range(self.max_length + 1)
        if len(value) not in allowed:
            raise MessageError(f"{len(value)} bytes where {allowed} are allowed")
        return value


@dataclass(frozen=True, slots=True)
class Versions:
    """1 to 16 protocol versions in the header."""

    def check(self, value: object) -> object:
        """Refuse what is no tuple of u16."""
        if not isinstance(value, tuple) or not 1 <= len(value) <= 16:
            raise MessageError(f"{value!r:.40} is no list of versions")
        for version in value:
            U16.check(version)
        return value


@dataclass(frozen=True, slots=True)
class Rows:
    """Long bytes behind the header, in `n` rows of `row_bytes` each."""

    max_bytes: int
    row_bytes: int = 1
    dtype: Dtype = Dtype.U8

    def pack(self, value: object) -> Packed | None:
        """Describe the bytes as u8 [n] or u8 [n, row_bytes]."""
        if not isinstance(value, bytes):
            raise MessageError(f"{value!r:.40} is not bytes")
        n, rest = divmod(len(value), self.row_bytes)
        if rest or len(value) > self.max_bytes:
            raise MessageError(f"{len(value)} bytes in rows of {self.row_bytes}")
        if not value:
            return None
        shape = [n] if self.row_bytes == 1 else [n, self.row_bytes]
        return [self.dtype, *shape], value

    def unpack(self, dimensions: Sequence[int], raw: memoryview) -> object:
        """Return the bytes."""
        expected = () if self.row_bytes == 1 else (self.row_bytes,)
        if dimensions and (tuple(dimensions[1:]) != expected):
            raise MessageError(f"shape {dimensions}, not rows of {self.row_bytes}")
        if len(raw) > self.max_bytes:
            raise MessageError(f"{len(raw)} bytes, above {self.max_bytes}")
        return bytes(raw)


@dataclass(frozen=True, slots=True)
class Experts:
    """Expert ids behind the header, packed into u32 each."""

    max_experts: int = 1 << 20
    dtype: Dtype = Dtype.U32

    def pack(self, value: object) -> Packed | None:
        """Describe the ids as u32 [n]."""
        if not isinstance(value, tuple) or len(value) > self.max_experts:
            raise MessageError(f"{value!r:.40} is no tuple of expert ids")
        if not value:
            return None
        if not all(isinstance(expert, ExpertId) for expert in value):
            raise MessageError(f"{value!r:.40} holds something but expert ids")
        packed = [expert.packed for expert in value]
        return [self.dtype, len(packed)], pack_words(packed)

    def unpack(self, dimensions: Sequence[int], raw: memoryview) -> object:
        """Return the ids."""
        words = unpack_words(dimensions, raw, self.max_experts)
        return tuple(map(ExpertId.unpack, words))


@dataclass(frozen=True, slots=True)
class Counts:
    """Pairs (expert, count) as u32 [2, n]: all packed ids, then all counts."""

    dtype: Dtype = Dtype.U32

    def pack(self, value: object) -> Packed | None:
        """Describe the pairs as u32 [2, n]."""
        if not isinstance(value, tuple) or len(value) > _MAX_COUNTS:
            raise MessageError(f"{value!r:.40} is no tuple of counts")
        if not value:
            return None
        try:
            experts = [expert.packed for expert, _ in value]
            counts = [count for _, count in value]
        except (AttributeError, TypeError, ValueError) as error:
            raise MessageError("counts are pairs of expert id and u32") from error
        return [self.dtype, 2, len(value)], pack_words(experts + counts)

    def unpack(self, dimensions: Sequence[int], raw: memoryview) -> object:
        """Return the pairs."""
        if dimensions and (len(dimensions) != 2 or dimensions[0] != 2):
            raise MessageError(f"shape {dimensions}, not two rows of words")
        words = unpack_words((), raw, 2 * _MAX_COUNTS)
        n = len(words) // 2
        return tuple(zip(map(ExpertId.unpack, words[:n]), words[n:], strict=True))


def pack_words(words: Sequence[int]) -> bytes:
    """Return the little-endian bytes of u32 integers, or raise MessageError."""
    try:
        return struct.pack(f"<{len(words)}I", *words)
    except struct.error as error:
        raise MessageError(f"{words!r:.40} are no u32 integers") from error


def unpack_words(
    dimensions: Sequence[int], raw: memoryview, max_words: int
) -> tuple[int, ...]:
    """Return the u32 integers of `raw`, or raise MessageError."""
    if len(dimensions) > 1 or len(raw) > 4 * max_words:
        raise MessageError(f"shape {dimensions}, not a row of up to {max_words} words")
    return struct.unpack(f"<{len(raw) // 4}I", raw)


FLAG = Flag()
U8 = Integer(0xFF)
U16 = Integer(0xFFFF)
U32 = Integer(0xFFFF_FFFF)
U64 = Integer(0xFFFF_FFFF_FFFF_FFFF)
I63 = Integer(0x7FFF_FFFF_FFFF_FFFF)  # amounts of bytes and of money
DIGEST = Bytes((32,))
LEASE_ID = Bytes((8,))
NONCE = Bytes((8,))
PEER = Bytes((32,))
PRICE_TABLE = Rows(MAX_PRICE_TABLE_BYTES)
RECORD = Bytes(max_length=1024)
SIGNATURE = Bytes((64,))
TAB = Bytes((8,))
