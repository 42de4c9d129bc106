import numpy as np
import pytest

from mobile_worker.arithmetic import block_product as module
from mobile_worker.arithmetic.block_product import block_product, stand_up, upright
from mobile_worker.arithmetic.coding import CodedRows, ExpertInput, quantize_rows
from mobile_worker.arithmetic.decoded import decode_codes
from mobile_worker.arithmetic.errors import CodeRefused, ShapeMismatch
from mobile_worker.arithmetic.formats.block_format import Format, block_size
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.arithmetic.self_test import FORMATS, fixed_matrix, fixed_rows
from tests.support import arithmetic_oracle as oracle
from tests.support.formats import matrix_of

INTEGER = [each for each in FORMATS if is_integer(each)]


def product_of(matrix: Matrix, rows: ExpertInput) -> np.ndarray:
    x = upright(rows)
    return block_product(decode_codes((matrix,)), x.codes, x.scales)


def rows_of(n: int, n_cols: int) -> ExpertInput:
    x = fixed_rows("x", n, n_cols)
    return ExpertInput(coded=quantize_rows(x), floats=x)


@pytest.mark.parametrize("block_format", INTEGER)
def test_equal_to_the_plain_loop(block_format: Format) -> None:
    matrix, rows = fixed_matrix("m", block_format, 5, 256), rows_of(3, 256)
    size = matrix.raw.nbytes // 5
    raw = [bytes(matrix.raw[size * i :][:size]) for i in range(5)]
    codes, scales = rows.coded.codes.tolist(), rows.coded.scales.tolist()
    result = product_of(matrix, rows)
    for i in range(3):
        coded = (codes[i], scales[i])
        expected = oracle.product_row(block_format.name, raw, None, coded)
        assert result[i].tolist() == expected


@pytest.mark.parametrize("block_format", INTEGER)
def test_the_way_work_is_cut_changes_nothing(
    block_format: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix, rows = fixed_matrix("m", block_format, 40, 256), rows_of(9, 256)
    whole = product_of(matrix, rows)
    monkeypatch.setattr(module, "_ONE_SHOT_TERMS", 0)
    for strip in (1, 9 * 7, 9 * 1000):
        monkeypatch.setattr(module, "_STRIP_TERMS", strip)
        assert np.array_equal(product_of(matrix, rows), whole)


@pytest.mark.parametrize(
    ("block_format", "block", "code"),
    [
        (Format.Q8_0, b"\0\x3c" + b"\x80" * 32, -128),
        (Format.IQ4_NL, b"\0\x3c" + b"\0" * 16, -127),
        (Format.Q6_K, b"\0" * 192 + b"\1" * 16 + b"\0\x3c", -32),
    ],
)
def test_the_greatest_sums_of_integers_stay_exact(
    block_format: Format, block: bytes, code: int
) -> None:
    values, _ = block_size(block_format)
    matrix = matrix_of(block_format, block * (2 * 256 // values), 256)
    codes = np.full((2, 256), 127, np.int8)
    rows = ExpertInput(coded=CodedRows(codes=codes, scales=np.ones((2, 8), "f4")))
    assert product_of(matrix, rows).tolist() == [[code * 127.0 * 256] * 2] * 2


def test_rows_stand_upright_and_are_picked() -> None:
    x = upright(rows_of(4, 96))
    assert x.codes is not None
    assert x.codes.shape == (3, 32, 4)
    picked = x.take(np.array([3, 0]))
    assert picked.n == 2
    assert np.array_equal(picked.codes[:, :, 0], x.codes[:, :, 3])
    assert np.array_equal(picked.floats[1], x.floats[0])
    assert x.take(None) is x
    only_floats = upright(ExpertInput(floats=np.zeros((2, 32), np.float32)))
    assert only_floats.take(np.array([1])).codes is None


def test_codes_of_the_coding_stand_up_as_they_are() -> None:
    codes, scales = np.ones((2, 3, 32), "f4"), np.ones((2, 3, 1), "f4")
    assert stand_up(codes, scales, None).scales.shape == (3, 1, 2)


@pytest.mark.parametrize("row", [-1, 4, 99])
def test_a_row_that_is_not_there_is_refused(row: int) -> None:
    with pytest.raises(ShapeMismatch, match=f"no row {row} among 4"):
        upright(rows_of(4, 96)).take(np.array([0, row]))


def test_rows_that_no_coding_gives_are_refused() -> None:
    codes = np.full((1, 32), -128, np.int8)
    coded = CodedRows(codes=codes, scales=np.ones((1, 1), "f4"))
    with pytest.raises(CodeRefused):
        upright(ExpertInput(coded=coded))


def test_no_rows_no_product() -> None:
    matrix = fixed_matrix("m", Format.Q2_K, 3, 256)
    assert product_of(matrix, rows_of(0, 256)).shape == (0, 3)
