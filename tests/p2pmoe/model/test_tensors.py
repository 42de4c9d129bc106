from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.errors import FormatUnsupported
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import dequantize
from mobile_worker.arithmetic.self_test import fixed_matrix
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.tensors import read_floats, read_matrix, take_rows
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import open_model
from tests.support.gguf_writer import TensorBytes, write_gguf


def one_tensor(path: Path, block_format: Format, shape: tuple[int, ...], raw: bytes):
    tensor = TensorBytes(name="t", type=int(block_format), shape=shape, content=raw)
    write_gguf(path / "m.gguf", {"general.architecture": "x"}, [tensor])
    return open_model(path / "m.gguf")


def test_a_matrix_is_the_files_own_bytes(tmp_path: Path) -> None:
    raw = bytes(fixed_matrix("m", Format.Q4_0, 4, 64).raw)
    with one_tensor(tmp_path, Format.Q4_0, (4, 64), raw) as model_file:
        matrix = read_matrix(model_file, "t", (4, 64))
        assert matrix.raw == raw
        assert matrix.format is Format.Q4_0
        with pytest.raises(ModelRefused, match=r"\[4, 64\]"):
            read_matrix(model_file, "t", (64, 4))
        with pytest.raises(ModelRefused):
            read_floats(model_file, "t", 256)


def test_a_format_that_cannot_be_computed_with_is_refused(tmp_path: Path) -> None:
    with one_tensor(tmp_path, Format.IQ2_XS, (1, 256), bytes(74)) as model_file:
        with pytest.raises(FormatUnsupported, match=r"tensor t: .* IQ2_XS"):
            read_matrix(model_file, "t")


@pytest.mark.parametrize(
    ("block_format", "at", "bad"),
    [
        (Format.Q4_0, 36 * 3 + 18, b"\0\x7c"),
        (Format.Q5_1, 48 * 3 + 2, b"\1\x7e"),
        (Format.MXFP4, 34 * 3, b"\xff"),
        (Format.F32, 256 * 3 + 4, b"\0\0\x80\xff"),
        (Format.BF16, 128 * 3, b"\x80\x7f"),
    ],
)
def test_a_matrix_without_numbers_is_refused_and_named_when_it_is_read(
    tmp_path: Path, block_format: Format, at: int, bad: bytes
) -> None:
    raw = bytearray(fixed_matrix("m", block_format, 4, 64).raw)
    raw[at : at + len(bad)] = bad
    with one_tensor(tmp_path, block_format, (4, 64), bytes(raw)) as model_file:
        matrix = read_matrix(model_file, "t")
    with pytest.raises(ModelFileError, match="tensor 't': row 3 of a") as caught:
        matrix.raw  # noqa: B018
    assert "\n" not in str(caught.value)


def test_rows_that_are_no_multiple_of_32_are_refused_and_named(tmp_path: Path) -> None:
    with one_tensor(tmp_path, Format.F32, (4, 40), bytes(640)) as model_file:
        with pytest.raises(ModelFileError, match=r"tensor 't': .* multiple of 32"):
            read_matrix(model_file, "t")


def test_vectors_are_finite_f32(tmp_path: Path) -> None:
    values = np.arange(32, dtype="<f4")
    with one_tensor(tmp_path, Format.F32, (32,), values.tobytes()) as model_file:
        assert np.array_equal(read_floats(model_file, "t", 32), values)
        with pytest.raises(ModelRefused, match="vector of 31"):
            read_floats(model_file, "t", 31)
    values[3] = np.nan
    with one_tensor(tmp_path, Format.F32, (32,), values.tobytes()) as model_file:
        with pytest.raises(ModelRefused, match="not finite"):
            read_floats(model_file, "t", 32)


@pytest.mark.parametrize("block_format", [Format.Q8_0, Format.Q6_K, Format.F32])
def test_rows_can_be_taken_in_any_order(block_format: Format) -> None:
    matrix = fixed_matrix("m", block_format, 9, 256)
    rows = take_rows(matrix, [8, 0, 8])
    assert np.array_equal(rows, dequantize(matrix)[[8, 0, 8]])
    rows += 1.0  # its own memory


@pytest.mark.parametrize("block_format", [Format.F32, Format.F16, Format.BF16])
def test_a_vector_is_exact_in_any_float_format(
    tmp_path: Path, block_format: Format
) -> None:
    values = np.array([1.0, -0.5, 3.0, 0.0078125], np.float32)
    raw = {
        Format.F32: values.tobytes(),
        Format.F16: values.astype("<f2").tobytes(),
        Format.BF16: (values.view("<u4") >> 16).astype("<u2").tobytes(),
    }[block_format]
    with one_tensor(tmp_path, block_format, (4,), raw) as model_file:
        read = read_floats(model_file, "t", 4)
    assert read.dtype == np.float32
    assert read.tolist() == values.tolist()
