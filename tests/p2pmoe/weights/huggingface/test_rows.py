"""Every kind of rows against numpy, whole and in pieces, any run of rows."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.huggingface import rows as rows_module
from p2pmoe.weights.huggingface.rows import (
    Columns,
    Constant,
    Every,
    Items,
    Joined,
    PlusOne,
    Reordered,
    Rows,
    Stored,
    Transposed,
    Widened,
    runs,
)

RNG = np.random.default_rng(7)
FLOATS = RNG.standard_normal((12, 6)).astype(np.float32)
FLOATS[0, :3] = [np.nan, np.inf, -np.inf]
FLOATS.view(np.uint32)[1, 0] = 0x7F800001  # a NaN that signals
BITS = RNG.integers(0, 1 << 16, (12, 6)).astype(np.uint16)
ORDER = RNG.permutation(12)


def bfloat(bits: Items) -> Items:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def plus_one(values: Items) -> Items:
    with np.errstate(invalid="ignore"):
        return values + np.float32(1)


# name -> (rows over FLOATS or BITS, what they must be)
KINDS: dict[str, tuple[Callable[[Rows, Rows], Rows], Items]] = {
    "stored": (lambda f, _: f, FLOATS),
    "bfloat": (lambda _, b: Widened(b, is_bfloat=True), bfloat(BITS)),
    "half": (lambda _, b: Widened(b, is_bfloat=False), BITS.view(np.float16)),
    "plus_one": (lambda f, _: PlusOne(f), plus_one(FLOATS)),
    "joined": (
        lambda f, _: Joined([Every(f, 8, 3), Every(f, 0, 1), f]),
        np.concatenate([FLOATS[8:11], FLOATS[:1], FLOATS]),
    ),
    "run": (lambda f, _: Every(f, 3, 7), FLOATS[3:10]),
    "every_other": (lambda f, _: Every(f, 1, 6, 2), FLOATS[1::2]),
    "every_third": (lambda f, _: Every(f, 0, 4, 3), FLOATS[::3]),
    "reordered": (lambda f, _: Reordered(f, ORDER), FLOATS[ORDER]),
    "columns": (lambda f, _: Columns(f, 1, 2), FLOATS[:, 1::2]),
    "transposed": (lambda f, _: Transposed(f, 2, 9), FLOATS[2:11].T),
    "constant": (lambda _f, _b: Constant(FLOATS), FLOATS),
    "nested": (
        lambda f, _: Every(Transposed(Reordered(f, ORDER), 0, 12), 1, 3, 2),
        FLOATS[ORDER].T[1::2],
    ),
}


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Rows, Rows]:
    path = tmp_path / "data"
    path.write_bytes(b"abc" + FLOATS.tobytes() + BITS.tobytes())
    file = OpenFile(path)
    floats = Stored(file, 3, 12, 6, np.dtype(np.float32))
    return floats, Stored(file, 3 + FLOATS.nbytes, 12, 6, np.dtype(np.uint16))


@pytest.mark.parametrize("piece", [1, 50, 1 << 20], ids=lambda piece: f"piece_{piece}")
@pytest.mark.parametrize("kind", KINDS)
def test_any_run_of_rows_is_what_numpy_makes(
    kind: str, piece: int, stored: tuple[Rows, Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "_PIECE_BYTES", piece)
    make, expected = KINDS[kind]
    rows = make(*stored)
    assert (rows.n_rows, rows.n_items) == expected.shape
    for first in range(rows.n_rows):
        for end in range(first, rows.n_rows + 1):
            out = np.empty((end - first, rows.n_items), rows.dtype)
            rows.fill(first, out)
            assert out.tobytes() == expected[first:end].astype(rows.dtype).tobytes()


def test_pieces_cover_all_rows_once() -> None:
    pieces = list(runs(10, 300_000))
    assert pieces == [(0, 3), (3, 3), (6, 3), (9, 1)]
    assert list(runs(2, 1 << 30)) == [(0, 1), (1, 1)]
    assert list(runs(0, 8)) == []
