import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.errors import MatrixMalformed
from mobile_worker.arithmetic.formats.block_format import Format, block_size
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix, rows_of


def matrix(n_rows: int, n_cols: int) -> Matrix:
    raw = memoryview(bytes(n_rows * n_cols // 32 * 18))
    return Matrix(format=Format.Q4_0, n_rows=n_rows, n_cols=n_cols, raw=raw)


def expert(gate: Matrix, up: Matrix, down: Matrix) -> ExpertWeights:
    activation = Activation(kind=ActivationKind.SWIGLU)
    return ExpertWeights(gate=gate, up=up, down=down, activation=activation)


def test_bytes_must_be_the_shapes() -> None:
    with pytest.raises(MatrixMalformed, match="needs 36 bytes, has 35"):
        Matrix(format=Format.Q4_0, n_rows=2, n_cols=32, raw=memoryview(bytes(35)))


@pytest.mark.parametrize(("n_rows", "n_cols"), [(0, 32), (1, 0), (-1, 32), (1, 48)])
def test_no_shape_no_matrix(n_rows: int, n_cols: int) -> None:
    with pytest.raises(MatrixMalformed):
        Matrix(format=Format.F32, n_rows=n_rows, n_cols=n_cols, raw=memoryview(b""))


def test_two_matrices_are_never_equal() -> None:
    assert matrix(1, 32) != matrix(1, 32)


def test_an_experts_matrices_must_chain() -> None:
    expert(matrix(64, 32), matrix(64, 32), matrix(32, 64))
    for down in (matrix(64, 32), matrix(32, 32), matrix(64, 64)):
        with pytest.raises(MatrixMalformed, match="chain"):
            expert(matrix(64, 32), matrix(64, 32), down)
    with pytest.raises(MatrixMalformed, match="64 x 32, 32 x 32"):
        expert(matrix(64, 32), matrix(32, 32), matrix(32, 64))


@pytest.mark.parametrize("part", ["gate", "up", "down"])
def test_a_bias_has_one_float_a_row(part: str) -> None:
    parts = {"gate": matrix(64, 32), "up": matrix(64, 32), "down": matrix(32, 64)}
    activation = Activation(kind=ActivationKind.SWIGLU)
    n_rows = parts[part].n_rows
    good = np.zeros(n_rows, np.float32)
    ExpertWeights(**parts, activation=activation, **{f"{part}_bias": good})
    for bad in (good[1:], good.astype(np.float64), good[None]):
        with pytest.raises(MatrixMalformed, match=f"the {part} bias"):
            ExpertWeights(**parts, activation=activation, **{f"{part}_bias": bad})


def test_bytes_must_lie_side_by_side() -> None:
    raw = memoryview(bytes(72))[::2]
    with pytest.raises(MatrixMalformed, match="side by side"):
        Matrix(format=Format.Q4_0, n_rows=2, n_cols=32, raw=raw)


@pytest.mark.parametrize("block_format", [Format.Q8_0, Format.Q4_K, Format.NVFP4])
def test_a_row_is_whole_blocks(block_format: Format) -> None:
    values, n_bytes = block_size(block_format)
    n_cols = 3 * values // 2 if values > 32 else 48
    raw = memoryview(bytes(2 * n_bytes))
    with pytest.raises(MatrixMalformed, match=str(n_cols)):
        Matrix(format=block_format, n_rows=1, n_cols=n_cols, raw=raw)


def test_rows_are_a_view() -> None:
    raw = bytes(range(4 * 18))
    own = Matrix(format=Format.Q4_0, n_rows=4, n_cols=32, raw=memoryview(raw))
    part = rows_of(own, 1, 3)
    assert part.n_rows == 2
    assert part.raw == raw[18:54]
    for first, end in ((-1, 2), (2, 2), (0, 5)):
        with pytest.raises(MatrixMalformed, match="rows"):
            rows_of(own, first, end)
