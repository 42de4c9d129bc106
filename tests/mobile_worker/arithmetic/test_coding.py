import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.arithmetic.coding import (
    CodedRows,
    ExpertInput,
    block_codes,
    check_coded,
    quantize_rows,
)
from mobile_worker.arithmetic.errors import CodeRefused, NonFinite, ShapeMismatch
from tests.support import arithmetic_oracle as oracle
from tests.support.golden import golden, to_floats

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("case", golden("coding.json"), ids=lambda c: c["name"])
def test_golden_bytes(case: dict[str, str]) -> None:
    coded = quantize_rows(to_floats(case["x"])[None])
    together = coded.codes.tobytes() + coded.scales.astype("<f4").tobytes()
    assert together.hex() == case["R8"]


@given(st.lists(FINITE, min_size=64, max_size=64), st.sampled_from([127, 32767]))
def test_equal_to_the_plain_loop(values: list[float], q: int) -> None:
    codes, scales = block_codes(np.array([values], np.float32), q)
    expected_codes, expected_scales = oracle.quantize_row(values, q)
    assert codes.ravel().tolist() == expected_codes
    assert scales.ravel().tolist() == expected_scales


def test_a_row_alone_is_a_row_in_a_batch() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((7, 96)).astype(np.float32)
    x[3] = 0.0
    together = quantize_rows(x)
    for i in range(len(x)):
        alone = quantize_rows(x[i : i + 1])
        assert np.array_equal(alone.codes[0], together.codes[i])
        assert np.array_equal(alone.scales[0], together.scales[i])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused(bad: float) -> None:
    x = np.zeros((2, 64), np.float32)
    x[1, 40] = bad
    with pytest.raises(NonFinite, match="non-finite"):
        quantize_rows(x)


def test_columns_must_fill_blocks() -> None:
    with pytest.raises(ShapeMismatch, match="33"):
        quantize_rows(np.zeros((1, 33), np.float32))


def test_no_rows_are_no_rows() -> None:
    assert quantize_rows(np.zeros((0, 64), np.float32)).codes.shape == (0, 64)


def coded(code: int = 0, scale: float = 1.0) -> CodedRows:
    codes = np.zeros((2, 32), np.int8)
    codes[1, 5] = code
    return CodedRows(codes=codes, scales=np.array([[1.0], [scale]], np.float32))


def test_code_minus_128_is_refused_on_input() -> None:
    check_coded(coded(code=-127))
    with pytest.raises(CodeRefused, match="-128"):
        check_coded(coded(code=-128))


@pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0])
def test_an_impossible_scale_is_refused(scale: float) -> None:
    with pytest.raises(CodeRefused, match="scale"):
        check_coded(coded(scale=scale))


def test_codes_and_scales_must_belong_together() -> None:
    rows = CodedRows(codes=np.zeros((2, 64), np.int8), scales=np.ones((2, 1), "f4"))
    with pytest.raises(ShapeMismatch):
        check_coded(rows)


def test_rows_can_be_picked_from_both_kinds() -> None:
    x = np.arange(96, dtype=np.float32).reshape(3, 32)
    picked = ExpertInput(coded=quantize_rows(x), floats=x).take(np.array([2, 0]))
    assert picked.n_rows == 2
    assert picked.floats is not None
    assert picked.floats[0, 0] == 64.0
    assert picked.coded is not None
    assert np.array_equal(picked.coded.codes[0], quantize_rows(x[2:]).codes[0])
    assert ExpertInput().n_rows == 0
    assert ExpertInput(floats=x).take(np.array([1])).coded is None


@pytest.mark.parametrize("row", [-1, 3])
def test_a_row_that_is_not_there_is_refused(row: int) -> None:
    x = np.ones((3, 32), np.float32)
    with pytest.raises(ShapeMismatch, match=f"no row {row} among 3"):
        ExpertInput(floats=x).take(np.array([1, row]))


@pytest.mark.parametrize(
    "x", [np.zeros(32, "f4"), np.zeros((1, 32)), np.zeros((1, 1, 32), "f4")]
)
def test_rows_are_float32_in_two_dimensions(x: np.ndarray) -> None:
    with pytest.raises(ShapeMismatch, match="float32"):
        quantize_rows(x)


def test_coded_rows_are_of_their_types() -> None:
    for rows in (
        CodedRows(codes=np.zeros((1, 32), np.int16), scales=np.ones((1, 1), "f4")),
        CodedRows(codes=np.zeros((1, 32), np.int8), scales=np.ones((1, 1))),
        CodedRows(codes=np.zeros(32, np.int8), scales=np.ones((1, 1), "f4")),
    ):
        with pytest.raises(ShapeMismatch, match="int8"):
            check_coded(rows)
