import os
import struct
from pathlib import Path

import pytest

from p2pmoe.weights.cursor import Cursor, read_at
from p2pmoe.weights.errors import ModelFileError, ModelFileTruncated


def cursor(tmp_path: Path, content: bytes) -> Cursor:
    path = tmp_path / "f"
    path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    os_close.append(fd)
    return Cursor(path, fd, len(content))


os_close: list[int] = []


@pytest.fixture(autouse=True)
def closed():
    yield
    while os_close:
        os.close(os_close.pop())


def test_numbers_and_texts_follow_each_other(tmp_path: Path) -> None:
    at = cursor(tmp_path, struct.pack("<IqQ", 7, -1, 2) + "é".encode())
    assert at.number("I", "a") == 7
    assert at.number("q", "b") == -1
    assert at.text("c", 10) == "é"
    assert at.remaining == 0


def test_reading_goes_on_over_block_borders(tmp_path: Path) -> None:
    content = bytes(i * 7 % 251 for i in range(600_000))
    at = cursor(tmp_path, content)
    parts = [at.take(n, "x") for n in (3, 262_141, 5, 300_000, 37_851)]
    assert b"".join(parts) == content


def test_too_short_a_file_says_what_it_needs(tmp_path: Path) -> None:
    at = cursor(tmp_path, b"12345678")
    at.take(4, "a")
    with pytest.raises(ModelFileTruncated, match="b: needs 12 bytes, has 8"):
        at.take(8, "b")


def test_a_length_out_of_bounds_is_refused_before_reading(tmp_path: Path) -> None:
    at = cursor(tmp_path, struct.pack("<Q", 1 << 63))
    with pytest.raises(ModelFileError, match=r"length of key: 9223372036854775808"):
        at.text("key", 100)


def test_broken_utf8_is_refused(tmp_path: Path) -> None:
    at = cursor(tmp_path, struct.pack("<Q", 2) + b"\xff\xfe")
    with pytest.raises(ModelFileError, match="UTF-8"):
        at.text("key", 100)


def test_b03_reading_past_a_cut_end_is_an_error_not_a_signal(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(100))
    fd = os.open(path, os.O_RDONLY)
    os_close.append(fd)
    os.truncate(path, 40)
    with pytest.raises(ModelFileTruncated, match="needs 100 bytes, has 40"):
        read_at(path, fd, 20, 80)


def test_a_failing_read_names_the_file(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    os_close.append(fd)
    with pytest.raises(ModelFileError, match="cannot read 4 bytes at 0"):
        read_at(tmp_path, fd, 0, 4)


def test_many_texts_are_read_as_one_by_one(tmp_path: Path) -> None:
    texts = [chr(0x100 + n % 600) * (n % 40) for n in range(30_000)]
    packed = b"".join(
        struct.pack("<Q", len(raw)) + raw for raw in (t.encode() for t in texts)
    )
    at = cursor(tmp_path, packed)
    assert at.texts(len(texts), "t", 100) == tuple(texts)
    assert at.remaining == 0


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (struct.pack("<Q", 2) + b"\xff\xfe", "UTF-8"),
        (struct.pack("<Q", 101), "101 is not in 0..100"),
        (struct.pack("<Q", 9), "needs"),
        (b"\0", "needs"),
    ],
)
def test_a_bad_text_among_many_is_refused(
    tmp_path: Path, bad: bytes, reason: str
) -> None:
    good = struct.pack("<Q", 3) + b"abc"
    at = cursor(tmp_path, good * 5 + bad)
    with pytest.raises(ModelFileError, match=reason):
        at.texts(7, "t", 100)
