from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.errors import FormatUnsupported
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import dequantize
from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.head_products import (
    HeadProducts,
    read_heads,
    split_heads,
    transposed,
)
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import open_model
from tests.support.gguf_writer import TensorBytes, write_gguf

KERNEL = NumpyKernel()
VALUES = np.arange(2 * 3 * 16, dtype=np.float32).reshape(2, 3, 16) / 8


def read(
    folder: Path,
    shape: tuple[int, ...],
    content: bytes,
    block_format: Format = Format.F32,
) -> tuple[Matrix, ...]:
    tensor = TensorBytes(name="t", type=int(block_format), shape=shape, content=content)
    path = write_gguf(folder / "m.gguf", {"general.architecture": "x"}, [tensor])
    with open_model(path) as model_file:
        return tuple(read_heads(model_file, "t", (2, 3, shape[-1]))())


@pytest.mark.parametrize("block_format", [Format.F32, Format.F16, Format.Q8_0])
def test_each_head_has_its_own_matrix(block_format: Format) -> None:
    whole = fixed_matrix("w", block_format, 3 * 5, 32)
    products = HeadProducts(KERNEL, lambda: split_heads(whole, 3))
    x = fixed_rows("x", 4 * 3, 32).reshape(4, 3, 32)
    result = products(x)
    exact = np.einsum("nhc,hrc->nhr", x, dequantize(whole).reshape(3, 5, 32))
    assert result.shape == (4, 3, 5)
    assert np.abs(result - exact).max() < 0.01 * np.abs(exact).max()
    alone = products(x[2:3])
    assert alone[0].tobytes() == result[2].tobytes()


def test_narrow_heads_are_filled_with_zeros(tmp_path: Path) -> None:
    heads = read(tmp_path, (2, 3, 16), VALUES.tobytes())
    assert [(head.n_rows, head.n_cols) for head in heads] == [(3, 32)] * 2
    x = fixed_rows("x", 4 * 2, 32).reshape(4, 2, 32)[:, :, :16]
    result = HeadProducts(KERNEL, lambda: heads)(x)
    assert np.allclose(result, np.einsum("nhc,hrc->nhr", x, VALUES), atol=1e-4)


def test_heads_and_rows_may_be_one_dimension(tmp_path: Path) -> None:
    apart = read(tmp_path, (2, 3, 16), VALUES.tobytes())
    together = read(tmp_path, (6, 16), VALUES.tobytes())
    assert [bytes(head.raw) for head in apart] == [bytes(head.raw) for head in together]


@pytest.mark.parametrize(
    "block_format", [Format.F32, Format.F16, Format.BF16, Format.Q8_0, Format.Q4_0]
)
def test_a_transpose_holds_the_same_numbers(block_format: Format) -> None:
    matrix = fixed_matrix("w", block_format, 40, 64)
    turned = transposed(matrix)
    assert (turned.n_rows, turned.n_cols) == (64, 64)
    values = dequantize(turned)
    assert np.array_equal(values[:, :40], dequantize(matrix).T)
    assert not values[:, 40:].any()
    is_float = block_format in (Format.F16, Format.BF16)
    assert turned.format is (block_format if is_float else Format.F32)


def test_another_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match=r"\[3, 2, 16\]"):
        read(tmp_path, (3, 2, 16), VALUES.tobytes())


def test_a_format_that_nothing_computes_is_refused(tmp_path: Path) -> None:
    content = bytes(2 * 3 * 16)
    with pytest.raises(FormatUnsupported, match="I8"):
        read(tmp_path, (2, 3, 16), content, Format.I8)


def test_a_weight_that_is_no_number_is_refused(tmp_path: Path) -> None:
    bad = VALUES.copy()
    bad[1, 1, 1] = np.nan
    with pytest.raises(ModelFileError, match="'t'"):
        read(tmp_path, (2, 3, 16), bad.tobytes())


def test_weights_are_read_by_the_first_product_and_only_then(tmp_path: Path) -> None:
    tensor = TensorBytes(name="t", type=0, shape=VALUES.shape, content=VALUES.tobytes())
    path = write_gguf(tmp_path / "m.gguf", {"general.architecture": "x"}, [tensor])
    with open_model(path) as model_file:
        made = []
        make = read_heads(model_file, "t", (2, 3, 16))

    def counted() -> Sequence[Matrix]:
        made.append(1)
        return make()

    products = HeadProducts(KERNEL, counted)
    assert not made
    x = np.ones((1, 2, 16), np.float32)
    assert np.array_equal(products(x), products(x))
    assert len(made) == 1
