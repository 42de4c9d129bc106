"""Kinds of field values."""

import pytest

from mobile_worker.errors import MessageError
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.envelope import Dtype
from mobile_worker.messages.fields import (
    FLAG,
    U8,
    Bytes,
    Experts,
    Rows,
    Text,
    Versions,
    pack_words,
    unpack_words,
)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (U8, [0, 255], [-1, 256, True, 1.0, "1", None, b"1"]),
        (FLAG, [True, False], [0, 1, None, "true"]),
        (Text(4), ["", "abcd", "éé"], ["abcde", "ééé", b"ab", None, 3]),
        (Bytes((0, 8)), [b"", bytes(8)], [bytes(7), bytearray(8), "12345678", None]),
        (Bytes(max_length=3), [b"", b"abc"], [b"abcd", None]),
        (Versions(), [(1,), (0, 65_535)], [(), (1,) * 17, [1], (-1,), ("1",), None]),
    ],
)
def test_header_kinds(kind, good, bad):
    for value in good:
        assert kind.check(value) is value
    for value in bad:
        with pytest.raises(MessageError):
            kind.check(value)


def test_rows_of_fixed_width():
    kind = Rows(90, 30)
    assert kind.pack(bytes(60)) == ([Dtype.U8, 2, 30], bytes(60))
    assert kind.pack(b"") is None
    assert kind.unpack((2, 30), memoryview(bytes(60))) == bytes(60)
    assert kind.unpack((), memoryview(b"")) == b""
    for value in (bytes(31), bytes(120), None, bytearray(30)):
        with pytest.raises(MessageError):
            kind.pack(value)
    for shape in ((30, 2), (60,), (2, 29)):
        with pytest.raises(MessageError):
            kind.unpack(shape, memoryview(bytes(60)))
    with pytest.raises(MessageError):
        kind.unpack((4, 30), memoryview(bytes(120)))


def test_words():
    assert pack_words((1, 2)) == b"\1\0\0\0\2\0\0\0"
    assert unpack_words((2,), memoryview(b"\1\0\0\0\2\0\0\0"), 3) == (1, 2)
    for bad in ((-1,), (1 << 32,), ("1",), (1.5,)):
        with pytest.raises(MessageError):
            pack_words(bad)
    with pytest.raises(MessageError):
        unpack_words((1, 1), memoryview(bytes(4)), 9)
    with pytest.raises(MessageError):
        unpack_words((10,), memoryview(bytes(40)), 9)


def test_experts():
    ids = (ExpertId(1, 2), ExpertId(0, 3))
    packed = Experts().pack(ids)
    assert packed == ([Dtype.U32, 2], b"\2\0\1\0\3\0\0\0")
    assert Experts().unpack((2,), memoryview(packed[1])) == ids
    for value in ([*ids], (1, 2), ids * 2, None):
        with pytest.raises(MessageError):
            Experts(3).pack(value)
