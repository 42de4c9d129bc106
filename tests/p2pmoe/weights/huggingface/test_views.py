"""Whole tensors made of others, each against numpy's own reshaping."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.huggingface.rows import Items, Stored
from p2pmoe.weights.huggingface.views import (
    ShapeMismatch,
    View,
    every_other,
    halves,
    head_parts,
    permute_heads,
    plus_one,
    stack,
    transpose,
)

F32 = np.dtype(np.float32)


@pytest.fixture
def view_of(tmp_path: Path) -> Callable[[Items], View]:
    def make(values: Items) -> View:
        path = tmp_path / f"data{len(list(tmp_path.iterdir()))}"
        path.write_bytes(values.tobytes())
        n_cols = values.shape[-1]
        rows = Stored(OpenFile(path), 0, values.size // n_cols, n_cols, F32)
        return View(Format.F32, values.shape, rows)

    return make


def values_of(view: View) -> Items:
    out = np.empty((view.rows.n_rows, view.rows.n_items), view.rows.dtype)
    view.rows.fill(0, out)
    return out.reshape(view.shape)


def some(*shape: int) -> Items:
    return np.arange(np.prod(shape), dtype=F32).reshape(shape)


def huge(view_of: Callable[[Items], View], *shape: int) -> View:
    """Return a view that says it is as large as a file of holes may be."""
    return View(Format.F32, shape, view_of(some(1, 1)).rows)


def test_stack(view_of: Callable[[Items], View]) -> None:
    parts = [some(2, 3) + k for k in range(4)]
    stacked = stack([view_of(part) for part in parts])
    assert (values_of(stacked) == np.stack(parts)).all()
    with pytest.raises(ShapeMismatch, match=r"F32 \[3, 2\] beside F32 \[2, 3\]"):
        stack([view_of(some(2, 3)), view_of(some(3, 2))])


@pytest.mark.parametrize("outer", [(), (5,)])
def test_halves_and_every_other_row(
    outer: tuple[int, ...], view_of: Callable[[Items], View]
) -> None:
    values = some(*outer, 6, 4)
    first, second = map(values_of, halves(view_of(values)))
    assert (first == values[..., :3, :]).all()
    assert (second == values[..., 3:, :]).all()
    even, odd = map(values_of, every_other(view_of(values)))
    assert (even == values[..., ::2, :]).all()
    assert (odd == values[..., 1::2, :]).all()


def test_every_other_column(view_of: Callable[[Items], View]) -> None:
    values = some(3, 8)
    even, odd = map(values_of, every_other(view_of(values), of_columns=True))
    assert (even == values[:, ::2]).all()
    assert (odd == values[:, 1::2]).all()


@pytest.mark.parametrize("outer", [(), (5,)])
def test_transpose(outer: tuple[int, ...], view_of: Callable[[Items], View]) -> None:
    values = some(*outer, 6, 4)
    turned = values_of(transpose(view_of(values)))
    assert (turned == np.swapaxes(values, -1, -2)).all()


def test_head_parts(view_of: Callable[[Items], View]) -> None:
    values = some(4 * 5, 3)
    keys, rest = map(values_of, head_parts(view_of(values), 4, (2, 3)))
    heads = values.reshape(4, 5, 3)
    assert (keys == heads[:, :2]).all()
    assert (rest == heads[:, 2:]).all()


def test_permuted_heads_turn_alike(view_of: Callable[[Items], View]) -> None:
    """What half a head apart was pair i, is now values 2i and 2i + 1 of the head."""
    values = some(2 * 8, 3)
    permuted = values_of(permute_heads(view_of(values), 2)).reshape(2, 8, 3)
    heads = values.reshape(2, 8, 3)
    for pair in range(4):
        assert (permuted[:, 2 * pair] == heads[:, pair]).all()
        assert (permuted[:, 2 * pair + 1] == heads[:, pair + 4]).all()


def test_plus_one(view_of: Callable[[Items], View]) -> None:
    assert (values_of(plus_one(view_of(some(5, 1)))) == some(5, 1) + 1).all()


@pytest.mark.parametrize(
    "misuse",
    [
        lambda view: halves(view(some(3, 4))),
        lambda view: halves(view(some(4))),
        lambda view: every_other(view(some(2, 3, 4))),
        lambda view: every_other(view(some(2, 3)), of_columns=True),
        lambda view: transpose(view(some(4))),
        lambda view: head_parts(view(some(9, 3)), 2, (2, 3)),
        lambda view: head_parts(view(some(2, 5, 3)), 2, (2, 3)),
        lambda view: permute_heads(view(some(6, 3)), 2),
        lambda view: permute_heads(view(some(8)), 2),
        lambda view: halves(huge(view, 1 << 40, 2, 1)),
        lambda view: every_other(huge(view, 1 << 40, 2, 1)),
        lambda view: transpose(huge(view, 1 << 20, 1 << 20, 1)),
        lambda view: permute_heads(huge(view, 1 << 40, 1), 2),
        lambda view: head_parts(huge(view, 1 << 40, 1), 1 << 39, (1, 1)),
    ],
)
def test_a_wrong_shape_is_refused(
    misuse: Callable[[Callable[[Items], View]], object],
    view_of: Callable[[Items], View],
) -> None:
    with pytest.raises(ShapeMismatch):
        misuse(view_of)
