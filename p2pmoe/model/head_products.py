"""Products of which each head has its own matrix: head h's row times matrix h.

Latent attention (MLA) takes queries into the latent space and values out of it, head by
head. The matrices stay in the file's own format, as views of one tensor; only what must
be transposed is laid out anew: float formats as they are, a quantised one as F32, since
its blocks lie along the other axis. A kernel's columns come in blocks of 32; matrices
and rows that are narrower are filled with zeros, which change no sum. Weights are read
when they are first computed with, as `FileMatrix` does.
"""

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import CodedRows, ExpertInput, Floats
from mobile_worker.arithmetic.errors import FormatUnsupported
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import dequantize, is_supported
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import Matrix, rows_of
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.products import code_input, kinds_of
from p2pmoe.weights.file_matrix import FileMatrix
from p2pmoe.weights.model_file import ModelFile

__all__ = ["HeadMatrices", "HeadProducts", "read_heads", "split_heads", "transposed"]

_BLOCK: Final = 32
_FLOATS: Final = {Format.F32: "<u4", Format.F16: "<u2", Format.BF16: "<u2"}

HeadMatrices = Callable[[], Sequence[Matrix]]  # one for each head, made when called


class HeadProducts:
    """One matrix for each head, all of one shape and format."""

    def __init__(self, kernel: Kernel, make: HeadMatrices) -> None:
        """Keep what makes the matrices; it is called once, by the first product."""
        self._kernel = kernel
        self._make = make
        self._made: Sequence[Matrix] = ()
        self._lock = threading.Lock()

    def __call__(self, x: Floats) -> Floats:
        """Return each head's product, f32 [n, n_heads, n_rows].

        `x` f32 [n, n_heads, n_cols]; columns that the matrices have beyond are zeros.
        Raises NonFinite if rows are coded and one is not finite, ModelFileError if the
        matrices cannot be read or hold what is no number.
        """
        matrices = self._matrices()
        n, n_heads, n_cols = x.shape
        upright = np.zeros((n_heads, n, matrices[0].n_cols), np.float32)
        upright[:, :, :n_cols] = x.transpose(1, 0, 2)
        flat = upright.reshape(n_heads * n, -1)
        rows = code_input(self._kernel, flat, kinds_of(matrices))
        result = np.empty((n, n_heads, matrices[0].n_rows), np.float32)
        for head, matrix in enumerate(matrices):
            own = slice(head * n, (head + 1) * n)
            result[:, head] = self._kernel.matmul(matrix, _some(rows, own))
        return result

    def _matrices(self) -> Sequence[Matrix]:
        if not self._made:
            with self._lock:
                self._made = self._made or self._make()
        return self._made


def read_heads(
    model_file: ModelFile, name: str, shape: tuple[int, int, int]
) -> HeadMatrices:
    """Promise a tensor of `shape` (heads, rows, columns) as a matrix for each head.

    Some files have heads and rows as one dimension. Raises ModelRefused for another
    shape, FormatUnsupported, and ModelFileError if rows are no whole blocks; all name
    the tensor.
    """
    tensor = model_file.tensor(name)
    n_heads, n_rows, n_cols = shape
    if tensor.shape not in {shape, (n_heads * n_rows, n_cols)}:
        raise ModelRefused(f"tensor {name} is {list(tensor.shape)}, not {list(shape)}")
    if not is_supported(tensor.format):
        raise FormatUnsupported(
            f"tensor {name}: cannot compute with format {tensor.format.name}"
        )
    is_narrow = n_cols % _BLOCK != 0 and tensor.format in _FLOATS
    width = _BLOCK if is_narrow else n_cols
    flat = (n_heads * n_rows * n_cols // width, width)
    whole = FileMatrix(model_file, dataclasses.replace(tensor, shape=flat))

    def make() -> tuple[Matrix, ...]:
        if not is_narrow:
            return split_heads(whole, n_heads)
        values = np.frombuffer(whole.raw, _FLOATS[whole.format])
        filled = _filled(whole.format, values.reshape(-1, n_cols))
        return split_heads(filled, n_heads)

    return make


def split_heads(matrix: Matrix, n_heads: int) -> tuple[Matrix, ...]:
    """Return equal runs of rows as views; `n_heads` divides the rows."""
    n_rows = matrix.n_rows // n_heads
    return tuple(
        rows_of(matrix, head * n_rows, (head + 1) * n_rows) for head in range(n_heads)
    )


def transposed(matrix: Matrix) -> Matrix:
    """Return the transpose, of a float format in that format, else decoded to F32."""
    if matrix.format not in _FLOATS:
        return _filled(Format.F32, dequantize(matrix).view("<u4").T)
    values = np.frombuffer(matrix.raw, _FLOATS[matrix.format])
    return _filled(matrix.format, values.reshape(matrix.n_rows, -1).T)


def _some(rows: ExpertInput, own: slice) -> ExpertInput:
    """Return a run of rows as a view."""
    coded, floats = rows.coded, rows.floats
    if coded is not None:
        coded = CodedRows(codes=coded.codes[own], scales=coded.scales[own])
    return ExpertInput(coded=coded, floats=None if floats is None else floats[own])


def _filled(block_format: Format, bits: npt.NDArray[np.uint32 | np.uint16]) -> Matrix:
    """Return weights, given as their bits, with zeros up to a whole block a row."""
    n_rows, n_cols = bits.shape
    room = np.zeros((n_rows, -(-n_cols // _BLOCK) * _BLOCK), bits.dtype)
    room[:, :n_cols] = bits
    return Matrix(
        format=block_format,
        n_rows=n_rows,
        n_cols=room.shape[1],
        raw=room.data.cast("B"),
    )
