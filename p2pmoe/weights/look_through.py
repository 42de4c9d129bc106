"""Looks a model file through for damage, without keeping what it reads.

Weights are read when they are first computed with, so damage would be met by a request.
A look through the file in the background finds it early: the bytes that are there, the
scales and weights that are numbers. It uses a few MiB, goes on only while it is told
to, and leaves the file in the system's cache, where the first request finds it.
"""

from collections.abc import Callable, Iterable

from mobile_worker.arithmetic.errors import MatrixMalformed
from mobile_worker.arithmetic.formats.check import check_matrix
from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.expert_id import ExpertId
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.gguf import Tensor
from p2pmoe.weights.model_file import ModelFile

__all__ = ["look_through"]

_PIECE_BYTES = 1 << 20


def look_through(
    model_file: ModelFile,
    experts: ExpertFile,
    wanted: Iterable[ExpertId],
    go_on: Callable[[], bool] = lambda: True,
) -> bool:
    """Read what was promised of a file, then some experts; False if told to stop.

    Raises:
        ModelFileError: the file was cut short, or a weight or scale is no finite
            number; names the tensor or the expert.
    """
    for promise in model_file.unread():
        for piece in _pieces(promise.tensor):
            if not go_on():
                return False
            _check(model_file, promise.tensor, *piece)
    for expert in wanted:
        if not go_on():
            return False
        experts.weights(expert)
    return True


def _pieces(tensor: Tensor) -> Iterable[tuple[int, int]]:
    """Return first row and number of rows, about a MiB each."""
    n_rows = tensor.shape[0]
    step = max(1, _PIECE_BYTES // tensor.row_bytes)
    return ((first, min(step, n_rows - first)) for first in range(0, n_rows, step))


def _check(model_file: ModelFile, tensor: Tensor, first: int, n_rows: int) -> None:
    offset = tensor.offset + first * tensor.row_bytes
    raw = model_file.read_range(offset, n_rows * tensor.row_bytes)
    try:
        check_matrix(
            Matrix(
                format=tensor.format,
                n_rows=n_rows,
                n_cols=tensor.n_cols,
                raw=memoryview(raw),
            )
        )
    except MatrixMalformed as exc:
        reason = f"rows {first} to {first + n_rows - 1}: {exc}" if first else str(exc)
        raise ModelFileError(model_file.path, reason, tensor=tensor.name) from exc
