"""The bytes around a message: type, checksum, header, tensors.

    u8 type | u32 header length | u32 crc32 | header | tensor bytes       (big-endian)

The header is a msgpack map of short known keys to integers, booleans, strings, bytes
and short arrays. A field whose value is long lies behind the header instead and is
named there by `[dtype, dimension, ...]`; such fields follow each other without gaps in
the order of the message's fields. crc32 covers everything but itself.

Nothing is built from a frame before its type is known, its checksum matches, its header
is bounded and the sizes of its tensors add up to exactly the bytes that are there.
Every refusal is a `MessageError`.
"""

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TypeAlias

import msgpack

from mobile_worker.errors import MessageError

__all__ = [
    "MAX_MESSAGE_BYTES",
    "Dtype",
    "Envelope",
    "MessageType",
    "close_envelope",
    "open_envelope",
    "tensor_bytes",
]

MAX_MESSAGE_BYTES = 64 << 20
MAX_HEADER_BYTES = 60_000
MAX_DIMENSIONS = 2
_PREFIX = struct.Struct(">BII")
_MAX_LIST = 256  # arrays in a header are dimensions and other short lists
_MAX_KEYS = 32
_STRINGS = frozenset((str,))


class MessageType(IntEnum):
    """The closed set of messages; the numbers are the wire's."""

    HELLO = 1
    HELLO_ACK = 2
    OFFER = 3
    LEASE = 4
    RENEW = 5
    RELEASE = 6
    HELD = 7
    MANIFEST = 8
    DEMAND = 9
    PLACEMENT = 10
    GRANT = 11
    GET = 12
    BLOB = 13
    DISPATCH = 14
    OUTPUT = 15
    ACCEPT = 16
    CANCEL = 17
    BUSY = 18
    DRAINING = 19
    VOUCHER = 20
    COUNTERSIGN = 21
    DISPUTE = 22
    GRANT_REQUEST = 24
    REFUSED = 25
    FILE = 26
    FILED = 27
    CANARY = 28
    CANARY_ANSWER = 29
    OPEN = 30
    OPENED = 31
    RECOMPUTE = 32
    RECOMPUTED = 33
    AUDIT = 34
    VERDICT = 35
    STANDING = 36
    PAID = 37
    STANDBY = 38
    BOOKED = 39


_TYPES = {int(number): number for number in MessageType}


class Dtype(IntEnum):
    """What the elements of a tensor are; little-endian.

    CODED [n] is n codes (i8, whole blocks of 32) followed by their n / 32 scales (f32).
    """

    U8 = 0
    U32 = 1
    F32 = 2
    CODED = 3


_ITEM_BYTES = {
    int(Dtype.U8): 1,
    int(Dtype.U32): 4,
    int(Dtype.F32): 4,
    int(Dtype.CODED): 1,
}

Envelope: TypeAlias = tuple[MessageType, dict[str, object], memoryview]


def close_envelope(
    message_type: MessageType, header: Mapping[str, object], body: Iterable[bytes]
) -> bytes:
    """Return the frame of a message; `body` holds its tensors in order."""
    packed: bytes = msgpack.packb(header)
    tensors = b"".join(body)
    first = struct.pack(">BI", message_type, len(packed))
    checksum = zlib.crc32(tensors, zlib.crc32(packed, zlib.crc32(first)))
    return b"".join((first, checksum.to_bytes(4, "big"), packed, tensors))


def open_envelope(frame: bytes) -> Envelope:
    """Return type, header and the view of the tensor bytes of a frame.

    Raises:
        MessageError: the frame is too short or long, of unknown type, damaged, or its
            header is no bounded map with distinct string keys.
    """
    if not _PREFIX.size <= len(frame) <= MAX_MESSAGE_BYTES:
        raise MessageError(f"a message of {len(frame)} bytes")
    number, header_length, checksum = _PREFIX.unpack_from(frame)
    message_type = _TYPES.get(number)
    if message_type is None:
        raise MessageError(f"unknown message type {number}")
    end = _PREFIX.size + header_length
    if header_length > MAX_HEADER_BYTES or end > len(frame):
        raise MessageError(f"header length {header_length} of {len(frame)} bytes")
    view = memoryview(frame)
    if zlib.crc32(view[_PREFIX.size :], zlib.crc32(view[:5])) != checksum:
        raise MessageError("the checksum does not match")
    return message_type, _unpack_header(view[_PREFIX.size : end]), view[end:]


def tensor_bytes(value: object) -> int:
    """Return how many bytes the tensor described by a header value has.

    Raises:
        MessageError: the value is no `[dtype, dimension, ...]` of the closed set with
            1 or 2 positive dimensions and at most MAX_MESSAGE_BYTES in all.
    """
    if not isinstance(value, tuple) or not 2 <= len(value) <= 1 + MAX_DIMENSIONS:
        raise MessageError(f"no tensor: {value!r:.80}")
    number = value[0]
    if type(number) is not int or number not in _ITEM_BYTES:
        raise MessageError(f"unknown dtype {number!r:.20}")
    n_items = 1
    for dimension in value[1:]:
        if type(dimension) is not int or not 1 <= dimension <= MAX_MESSAGE_BYTES:
            raise MessageError(f"dimension {dimension!r:.20} of a tensor")
        n_items *= dimension
    n_bytes = n_items * _ITEM_BYTES[number]
    if number == Dtype.CODED:
        if n_items % 32:
            raise MessageError(f"{n_items} coded values, not whole blocks of 32")
        n_bytes += n_items // 8
    if n_bytes > MAX_MESSAGE_BYTES:
        raise MessageError(f"a tensor of {n_bytes} bytes")
    return n_bytes


def _unpack_header(packed: memoryview) -> dict[str, object]:
    try:
        header = msgpack.unpackb(
            packed,
            use_list=False,
            object_pairs_hook=_distinct,
            max_array_len=_MAX_LIST,
            max_map_len=_MAX_KEYS,
            max_ext_len=0,
            ext_hook=_refuse,
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise MessageError("the header is no bounded msgpack map") from error
    if not isinstance(header, dict):
        raise MessageError("the header is no map")
    return header


def _refuse(code: int, _content: bytes) -> object:
    raise ValueError(f"an extension of type {code}")


def _distinct(pairs: Sequence[tuple[object, object]]) -> dict[object, object]:
    header = dict(pairs)
    if len(header) != len(pairs):
        raise ValueError("a key occurs twice")
    if not _STRINGS.issuperset(map(type, header)):
        raise ValueError("a key is no string")
    return header
