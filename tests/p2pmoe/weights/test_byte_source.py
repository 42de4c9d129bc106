import mmap
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.weights import byte_source
from p2pmoe.weights.byte_source import FileBytes, OpenFile
from p2pmoe.weights.errors import ModelFileError, ModelFileTruncated


def opened(folder: Path, *contents: bytes) -> FileBytes:
    files = []
    for number, content in enumerate(contents):
        path = folder / f"part-{number}"
        path.write_bytes(content)
        files.append(OpenFile(path))
    return FileBytes(files)


def read(source: FileBytes, offset: int, n_bytes: int) -> bytes:
    place = bytearray(n_bytes)
    source.read_into(offset, memoryview(place))
    return bytes(place)


@given(
    contents=st.lists(st.binary(max_size=40), min_size=1, max_size=5),
    bounds=st.tuples(st.integers(0, 200), st.integers(0, 200)),
)
def test_any_range_is_that_of_the_files_end_to_end(
    tmp_path_factory: pytest.TempPathFactory,
    contents: list[bytes],
    bounds: tuple[int, int],
) -> None:
    whole = b"".join(contents)
    source = opened(tmp_path_factory.mktemp("parts"), *contents)
    first, end = sorted(min(bound, len(whole)) for bound in bounds)
    assert source.n_bytes == len(whole)
    assert read(source, first, end - first) == whole[first:end]
    source.close()


def test_starts_are_where_the_files_begin(tmp_path: Path) -> None:
    source = opened(tmp_path, b"abc", b"", b"defgh")
    assert source.starts() == (0, 3, 3)
    source.close()


def test_b03_a_part_cut_short_is_named_with_both_sizes(tmp_path: Path) -> None:
    source = opened(tmp_path, b"a" * 100, b"b" * 100, b"c" * 100)
    os.truncate(tmp_path / "part-1", 40)
    with pytest.raises(ModelFileTruncated, match=r"part-1: needs 100 bytes, has 40"):
        read(source, 50, 200)
    assert read(source, 0, 100) == b"a" * 100
    assert read(source, 200, 100) == b"c" * 100
    source.close()


def test_beyond_the_end_is_truncated(tmp_path: Path) -> None:
    source = opened(tmp_path, b"abc")
    with pytest.raises(ModelFileTruncated, match="needs 5 bytes, has 3"):
        read(source, 1, 4)
    source.close()


def test_a_file_that_was_written_to_is_refused_from_then_on(tmp_path: Path) -> None:
    source = opened(tmp_path, b"a" * 100, b"b" * 100)
    os.utime(tmp_path / "part-1", ns=(1, 1))
    with (tmp_path / "part-1").open("r+b") as file:
        file.write(b"x")
    assert read(source, 0, 100) == b"a" * 100
    for _ in range(2):
        with pytest.raises(ModelFileError, match="part-1: was written to") as caught:
            read(source, 150, 10)
    assert "renaming" in caught.value.advice
    source.close()


def test_a_closed_source_says_so_and_closes_twice(tmp_path: Path) -> None:
    source = opened(tmp_path, b"abc")
    source.close()
    source.close()
    with pytest.raises(ModelFileError, match="is closed"):
        read(source, 0, 1)
    with pytest.raises(ModelFileError, match="is closed"):
        source.stamp()


def test_the_stamp_changes_with_size_and_time(tmp_path: Path) -> None:
    source = opened(tmp_path, b"abc", b"def")
    first = source.stamp()
    assert source.stamp() == first
    os.utime(tmp_path / "part-1", ns=(1, 1))
    second = source.stamp()
    os.truncate(tmp_path / "part-0", 2)
    assert len({first, second, source.stamp()}) == 3
    source.close()


def test_reading_past_the_cache_gives_the_same_bytes_or_none(tmp_path: Path) -> None:
    content = os.urandom(50_000)
    source = opened(tmp_path, content[:20_001], content[20_001:])
    place = mmap.mmap(-1, 1 << 16)
    room = memoryview(place)
    for offset, n_bytes in ((0, 4096), (5, 9_000), (20_001, 12), (30_003, 19_997)):
        part = source.read_past_cache(offset, n_bytes, room)
        if part is None:
            pytest.skip("this file system has no such reads")
        assert bytes(part) == content[offset : offset + n_bytes]
        part.release()
    assert source.read_past_cache(20_000, 2, room) is None  # of two files
    os.truncate(tmp_path / "part-1", 40)
    assert source.read_past_cache(30_000, 10, room) is None
    with pytest.raises(ModelFileError, match="was written to"):
        source.read_past_cache(20_001, 12, room)
    source.close()
    with pytest.raises(ModelFileError, match="is closed"):
        source.read_past_cache(0, 10, room)


def test_where_it_cannot_be_had_none_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_source, "_DIRECT", None)
    source = opened(tmp_path, b"a" * 5000)
    assert source.read_past_cache(0, 10, memoryview(bytearray(9000))) is None
    source.close()
