"""Any range of the address space is a slice of the whole, from any thread."""

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.errors import (
    ModelFileError,
    ModelFileTruncated,
    UnsupportedModel,
)
from p2pmoe.weights.huggingface.computed_bytes import ComputedBytes, lay_out
from p2pmoe.weights.huggingface.rows import PlusOne, Stored, Transposed, Widened
from p2pmoe.weights.huggingface.views import View

FLOATS = np.random.default_rng(2).standard_normal((5, 7)).astype(np.float32)
BITS = np.arange(33, dtype=np.uint16).reshape(11, 3)
F32, U16 = np.dtype(np.float32), np.dtype(np.uint16)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bytes") / "data"
    path.write_bytes(FLOATS.tobytes() + BITS.tobytes())
    return path


def views_of(file: OpenFile) -> dict[str, View]:
    floats = Stored(file, 0, 5, 7, F32)
    bits = Stored(file, FLOATS.nbytes, 11, 3, U16)
    return {
        "turned": View(Format.F32, (7, 5), Transposed(floats, 0, 5)),
        "bits": View(Format.BF16, (11, 3), bits),
        "norm": View(Format.F32, (33,), PlusOne(Widened(bits, is_bfloat=True))),
        "plain": View(Format.F32, (5, 7), floats),
    }


def source_of(path: Path) -> ComputedBytes:
    file = OpenFile(path)
    views = views_of(file)
    tensors, n_bytes = lay_out(path, views)
    source = ComputedBytes(path, tensors, views, [file])
    assert source.n_bytes == n_bytes
    return source


def expected() -> bytes:
    parts = [
        FLOATS.T.tobytes(),
        BITS.tobytes(),
        ((BITS.astype(np.uint32) << 16).view(np.float32) + np.float32(1)).tobytes(),
        FLOATS.tobytes(),
    ]
    whole = b""
    for part in parts:
        whole += bytes(-len(whole) % 32) + part
    return whole


def read(source: ComputedBytes, offset: int, n_bytes: int) -> bytes:
    place = bytearray(n_bytes)
    source.read_into(offset, memoryview(place))
    return bytes(place)


def test_places_are_aligned_and_in_order(path: Path) -> None:
    tensors, n_bytes = lay_out(path, views_of(OpenFile(path)))
    assert [t.offset % 32 for t in tensors.values()] == [0, 0, 0, 0]
    assert n_bytes == len(expected())
    assert [t.n_bytes for t in tensors.values()] == [140, 66, 132, 140]


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_any_range_is_a_slice_of_the_whole(data: st.DataObject, path: Path) -> None:
    whole = expected()
    first = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(first, len(whole)))
    assert read(source_of(path), first, end - first) == whole[first:end]


def test_ranges_outside_are_refused(path: Path) -> None:
    source = source_of(path)
    for offset, n_bytes in ((-1, 4), (0, source.n_bytes + 1), (source.n_bytes, 1)):
        with pytest.raises(ModelFileError, match="no range"):
            read(source, offset, n_bytes)


def test_threads_read_the_same(path: Path) -> None:
    source, whole = source_of(path), expected()
    found: list[bool] = []

    def many() -> None:
        found.append(
            all(read(source, at, 40) == whole[at : at + 40] for at in range(0, 440, 3))
        )

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_a_closed_or_cut_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(FLOATS.tobytes() + BITS.tobytes())
    source = source_of(path)
    stamp = source.stamp()
    with path.open("r+b") as file:
        file.truncate(100)
    assert source.stamp() != stamp
    with pytest.raises(ModelFileTruncated, match=r"needs .* bytes, has 100"):
        read(source, 0, 140)
    source.close()
    with pytest.raises(ModelFileError, match="is closed"):
        read(source, 0, 140)


def test_rows_that_no_memory_holds_are_refused(path: Path) -> None:
    rows = Stored(OpenFile(path), 0, 1, 1, F32)
    view = View(Format.F32, (1, 1 << 40), Transposed(rows, 0, 1 << 40))
    with pytest.raises(UnsupportedModel, match="are longer than"):
        lay_out(path, {"w": view})


def test_rows_that_end_within_a_block_are_refused(path: Path) -> None:
    rows = Stored(OpenFile(path), 0, 1, 17, np.dtype(np.uint8))
    with pytest.raises(UnsupportedModel, match="rows of 33 values end within a block"):
        lay_out(path, {"w": View(Format.MXFP4, (1, 33), rows)})
