import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import CodedRows, ExpertInput, quantize_rows
from mobile_worker.arithmetic.errors import (
    CodeRefused,
    FormatUnsupported,
    ShapeMismatch,
)
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from mobile_worker.arithmetic.wasm.instance import load_module
from mobile_worker.arithmetic.wasm.programs import (
    check_rows,
    expert_rows,
    multiply_rows,
    part_of,
    product_rows,
    run_expert,
)
from mobile_worker.arithmetic.wasm.resident import Budget
from mobile_worker.arithmetic.wasm.workspace import VALUES_BYTES, Program, Workspace

COMPILED = load_module("plain")
CODED, FLOATS = (fixed_matrix("m", f, 4, 64) for f in (Format.Q4_0, Format.F16))


def rows_of(n: int, n_cols: int) -> ExpertInput:
    x = fixed_rows("x", n, n_cols)
    return ExpertInput(coded=quantize_rows(x), floats=x)


def wide_expert(n_ff: int) -> ExpertWeights:
    """Return an expert of every input kind, as wide as one wants, all zeros."""

    def zeros(block_format: Format, n_rows: int, n_cols: int) -> Matrix:
        n_bytes = n_rows * n_cols * (4 if block_format is Format.F32 else 34 / 32)
        raw = memoryview(bytes(int(n_bytes)))
        return Matrix(format=block_format, n_rows=n_rows, n_cols=n_cols, raw=raw)

    return ExpertWeights(
        gate=zeros(Format.Q8_0, n_ff, 64),
        up=zeros(Format.F32, n_ff, 64),
        down=zeros(Format.Q8_0, 64, n_ff),
        activation=Activation(kind=ActivationKind.SWIGLU),
        gate_bias=np.zeros(n_ff, np.float32),
        up_bias=np.zeros(n_ff, np.float32),
        down_bias=np.zeros(64, np.float32),
    )


def test_rows_that_fit_are_taken() -> None:
    check_rows((CODED, FLOATS), rows_of(3, 64))
    check_rows((CODED,), ExpertInput(coded=rows_of(3, 64).coded))
    check_rows((FLOATS,), ExpertInput(floats=rows_of(3, 64).floats))


def test_rows_that_are_missing_or_of_another_shape_are_refused() -> None:
    whole = rows_of(3, 64)
    assert whole.floats is not None
    for matrix, rows in (
        (CODED, ExpertInput(floats=whole.floats)),
        (FLOATS, ExpertInput(coded=whole.coded)),
        (CODED, rows_of(3, 96)),
        (FLOATS, ExpertInput(floats=whole.floats[0])),
        (FLOATS, ExpertInput(floats=whole.floats[:, :32])),
        (FLOATS, ExpertInput(coded=whole.coded, floats=whole.floats[:2])),
        (FLOATS, ExpertInput(floats=whole.floats.astype(np.float64))),
    ):
        with pytest.raises(ShapeMismatch):
            check_rows((matrix,), rows)


def test_impossible_codes_and_formats_are_refused() -> None:
    coded = rows_of(2, 64).coded
    assert coded is not None
    coded.codes[1, 63] = -128
    with pytest.raises(CodeRefused):
        check_rows((CODED,), ExpertInput(coded=coded))
    codes, scales = np.zeros((2, 64), np.int8), np.full((2, 2), np.nan, np.float32)
    strange = ExpertInput(coded=CodedRows(codes=codes, scales=scales))
    with pytest.raises(CodeRefused):
        check_rows((CODED,), strange)
    raw = memoryview(bytes(40 * 2))
    unknown = Matrix(format=Format.Q8_1, n_rows=1, n_cols=64, raw=raw)
    with pytest.raises(FormatUnsupported):
        check_rows((unknown,), rows_of(1, 64))


def test_parts_are_views() -> None:
    whole = rows_of(5, 64)
    part = part_of(whole, slice(1, 3))
    assert part.coded is not None
    assert part.floats is not None
    assert whole.coded is not None
    assert np.shares_memory(part.coded.codes, whole.coded.codes)
    assert np.array_equal(part.floats, fixed_rows("x", 5, 64)[1:3])
    nothing = part_of(ExpertInput(), slice(0, 1))
    assert nothing.coded is None
    assert nothing.floats is None


@pytest.mark.parametrize("n_ff", [64, 4096, 200_000])
def test_as_many_rows_as_promised_fit(n_ff: int) -> None:
    weights = wide_expert(n_ff)
    n = expert_rows(weights)
    assert n >= 1
    for profile in Profile if n_ff == 200_000 else (Profile.R16,):
        program = Program(Workspace(COMPILED, Budget(1 << 30)))
        run_expert(program, weights, rows_of(n, 64), profile)
        assert program._free > program._workspace.values + VALUES_BYTES // 2
    program = Program(Workspace(COMPILED, Budget(1 << 30)))
    with pytest.raises(ShapeMismatch):
        run_expert(program, weights, rows_of(3 * n, 64), Profile.R16)


def test_as_many_products_as_promised_fit() -> None:
    matrices = (
        fixed_matrix("a", Format.F32, 4096, 32),
        fixed_matrix("b", Format.Q8_0, 8, 32),
    )
    n = product_rows(matrices)
    result = multiply_rows(
        Program(Workspace(COMPILED, Budget(0))), matrices, rows_of(n, 32)
    )
    assert result.shape == (n, 4104)
