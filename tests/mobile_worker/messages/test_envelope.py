"""The envelope: layout, checksum, bounded header, sizes of tensors."""

import struct
import zlib

import msgpack
import pytest

from mobile_worker.errors import MessageError
from mobile_worker.messages.envelope import (
    MAX_MESSAGE_BYTES,
    Dtype,
    MessageType,
    close_envelope,
    open_envelope,
    tensor_bytes,
)


def frame_of(header: bytes, body: bytes = b"", message_type: int = 17) -> bytes:
    first = struct.pack(">BI", message_type, len(header))
    crc = zlib.crc32(body, zlib.crc32(header, zlib.crc32(first)))
    return first + struct.pack(">I", crc) + header + body


def test_the_layout():
    frame = close_envelope(MessageType.CANCEL, {"request": 7}, [b"ab", b"c"])
    assert frame == frame_of(msgpack.packb({"request": 7}), b"abc")
    message_type, header, body = open_envelope(frame)
    assert message_type is MessageType.CANCEL
    assert header == {"request": 7}
    assert bytes(body) == b"abc"


def test_every_flipped_bit_is_noticed():
    frame = close_envelope(MessageType.CANCEL, {"request": 7}, [b"abc"])
    for bit in range(8 * len(frame)):
        broken = bytearray(frame)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(MessageError):
            open_envelope(bytes(broken))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xc0",
        b"\x90",
        b"\x81\x01\x02",  # an integer as a key
        b"\x82\xc4\x01a\x01\xa1b\x02",  # bytes as a key
        b"\x81\xa1a",  # cut short
        b"\x80\x80",  # something behind it
        b"\x82\xa1a\x01\xa1a\x02",  # a key twice
        b"\x81\xa1a\xd6\xff\x00\x00\x00\x01",  # a timestamp
        b"\x81\xa1a\xc7\x00\x05",  # an extension
        b"\x81\xa1\xff\x01",  # not UTF-8
        b"\x81\xa1a\xdd\xff\xff\xff\xff",  # an array that claims 4 billion items
        b"\x81\xa1a" + b"\x91" * 3000 + b"\x01",  # nested deeply
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa1a\xc6\xff\xff\xff\xff",
        b"\x81\xa1a\xc1",
    ],
)
def test_b25_headers_that_are_no_bounded_map(header):
    with pytest.raises(MessageError):
        open_envelope(frame_of(header))


def test_a_header_longer_than_its_bound_is_refused():
    with pytest.raises(MessageError):
        open_envelope(frame_of(msgpack.packb({"a": bytes(60_000)})))
    with pytest.raises(MessageError):
        open_envelope(struct.pack(">BII", 17, 1 << 31, 0) + bytes(100))


@pytest.mark.parametrize(
    ("described", "n_bytes"),
    [
        ((Dtype.U8, 5), 5),
        ((Dtype.U32, 5), 20),
        ((Dtype.F32, 2, 3), 24),
        ((Dtype.CODED, 64), 72),
        ((Dtype.U8, MAX_MESSAGE_BYTES), MAX_MESSAGE_BYTES),
    ],
)
def test_sizes_of_tensors(described, n_bytes):
    assert tensor_bytes(tuple(map(int, described))) == n_bytes


@pytest.mark.parametrize(
    "described",
    [
        (255, 1),
        (4, 1),
        (-1, 1),
        (2, 2**31, 2**31),
        (2, 0),
        (2, -1),
        (2, MAX_MESSAGE_BYTES),
        (3, 33),
        (0,),
        (0, 1, 1, 1),
        [0, 1],
        None,
        (0, 1.0),
        (False, 1),
        (0, True),
        ("0", 1),
    ],
)
def test_b25_tensors_that_are_none(described):
    with pytest.raises(MessageError):
        tensor_bytes(described)
