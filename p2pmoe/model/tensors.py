"""Tensors of a model file as the arithmetic wants them: matrices and float vectors."""

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import FormatUnsupported, MatrixMalformed
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.check import check_matrix
from mobile_worker.arithmetic.formats.codecs import dequantize, is_supported
from mobile_worker.arithmetic.matrix import Matrix
from p2pmoe.model.errors import ModelRefused
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import ModelFile

__all__ = ["read_floats", "read_matrix", "take_rows"]


def read_matrix(
    model_file: ModelFile, name: str, shape: tuple[int, int] | None = None
) -> Matrix:
    """Read a tensor of two dimensions, in its own block format.

    Raises ModelRefused if it is not of `shape` (rows, columns), FormatUnsupported, and
    ModelFileError if its rows are no whole blocks, or a weight or scale is no finite
    number; all name the tensor.
    """
    tensor = model_file.tensor(name)
    if len(tensor.shape) != 2 or (shape is not None and tensor.shape != shape):
        raise ModelRefused(f"tensor {name} is {list(tensor.shape)}, not {shape}")
    if not is_supported(tensor.format):
        raise FormatUnsupported(
            f"tensor {name}: cannot compute with format {tensor.format.name}"
        )
    try:
        matrix = Matrix(
            format=tensor.format,
            n_rows=tensor.shape[0],
            n_cols=tensor.shape[1],
            raw=model_file.load(name),
        )
        check_matrix(matrix)
    except MatrixMalformed as exc:
        raise ModelFileError(model_file.path, str(exc), tensor=name) from exc
    return matrix


def read_floats(model_file: ModelFile, name: str, n: int) -> Floats:
    """Read a vector of `n` F32 values; ModelRefused if it is none or not finite."""
    tensor = model_file.tensor(name)
    if tensor.shape != (n,) or tensor.format is not Format.F32:
        raise ModelRefused(f"tensor {name} is not a vector of {n} F32 values")
    values = np.frombuffer(model_file.read(name), "<f4").astype(np.float32)
    if not np.isfinite(values).all():
        raise ModelRefused(f"tensor {name} holds a value that is not finite")
    return values


def take_rows(matrix: Matrix, rows: list[int]) -> Floats:
    """Return some rows of a matrix as numbers, f32 [len(rows), n_cols]."""
    raw = np.frombuffer(matrix.raw, np.uint8).reshape(matrix.n_rows, -1)[rows]
    part = Matrix(
        format=matrix.format,
        n_rows=len(rows),
        n_cols=matrix.n_cols,
        raw=memoryview(raw.tobytes()),
    )
    return np.array(dequantize(part))
