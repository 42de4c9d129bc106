"""Tensors of a model file as the arithmetic wants them: matrices and float vectors."""

from collections.abc import Callable
from typing import Final

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import FormatUnsupported
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import dequantize, is_supported
from mobile_worker.arithmetic.matrix import Matrix
from p2pmoe.model.errors import ModelRefused
from p2pmoe.weights.file_matrix import FileMatrix
from p2pmoe.weights.model_file import ModelFile

__all__ = ["read_floats", "read_matrix", "take_rows"]

# Formats of vectors, and their values as f32, all of them exact.
_VECTORS: Final[dict[Format, Callable[[bytes | memoryview], Floats]]] = {
    Format.F32: lambda raw: np.frombuffer(raw, "<f4").astype(np.float32),
    Format.F16: lambda raw: np.frombuffer(raw, "<f2").astype(np.float32),
    Format.BF16: lambda raw: (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(
        np.float32
    ),
}


def read_matrix(
    model_file: ModelFile, name: str, shape: tuple[int, int] | None = None
) -> Matrix:
    """Return a tensor of two dimensions, in its own block format.

    Its bytes are read when it is first computed with; ModelFileError then, if the file
    was cut short or a weight or scale is no finite number (see `FileMatrix`).
    Raises ModelRefused if it is not of `shape` (rows, columns), FormatUnsupported, and
    ModelFileError if its rows are no whole blocks; all name the tensor.
    """
    tensor = model_file.tensor(name)
    if len(tensor.shape) != 2 or (shape is not None and tensor.shape != shape):
        raise ModelRefused(f"tensor {name} is {list(tensor.shape)}, not {shape}")
    if not is_supported(tensor.format):
        raise FormatUnsupported(
            f"tensor {name}: cannot compute with format {tensor.format.name}"
        )
    return FileMatrix(model_file, tensor)


def read_floats(model_file: ModelFile, name: str, n: int) -> Floats:
    """Read a vector of `n` values, which files have in F32, some in F16 or BF16.

    Raises ModelRefused if it is none or not finite.
    """
    tensor = model_file.tensor(name)
    if tensor.shape != (n,) or tensor.format not in _VECTORS:
        raise ModelRefused(f"tensor {name} is not a vector of {n} F32 values")
    values = _VECTORS[tensor.format](model_file.read(name))
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
