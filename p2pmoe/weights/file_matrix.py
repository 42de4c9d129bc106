"""A matrix that is read from its model file when it is first computed with.

Loading a model then costs neither the time nor the memory of its weights. The shape is
checked at once; bytes are read and their scales checked at the first look at `raw`, by
one thread, and stay for as long as the matrix does. A file that was cut short, or a
weight that is no number, raises ModelFileError then, for whoever looks, and again at
the next look. The matrix holds a share of its file until it has been read.
"""

import threading

from mobile_worker.arithmetic.errors import MatrixMalformed
from mobile_worker.arithmetic.formats.check import check_matrix
from mobile_worker.arithmetic.matrix import Matrix, shape_bytes
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.gguf import Tensor
from p2pmoe.weights.model_file import ModelFile

__all__ = ["FileMatrix"]


class FileMatrix(Matrix):
    """A tensor of two dimensions, in its own block format; see the module."""

    __slots__ = ("_bytes", "_file", "_lock", "_tensor")

    _bytes: memoryview | None
    _file: ModelFile
    _lock: threading.Lock
    _tensor: Tensor

    def __init__(self, model_file: ModelFile, tensor: Tensor) -> None:
        """Promise `tensor` of `model_file`.

        Raises:
            ModelFileError: Its shape is no matrix of whole blocks; names it.
        """
        n_rows, n_cols = tensor.shape
        try:
            shape_bytes(tensor.format, n_rows, n_cols)
        except MatrixMalformed as exc:
            raise ModelFileError(model_file.path, str(exc), tensor=tensor.name) from exc
        values = {
            "format": tensor.format,
            "n_rows": n_rows,
            "n_cols": n_cols,
            "_bytes": None,
            "_file": model_file.share(),
            "_lock": threading.Lock(),
            "_tensor": tensor,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        model_file.promise(self)

    @property
    def tensor(self) -> Tensor:
        """Where it lies in the file."""
        return self._tensor

    @property
    def is_read(self) -> bool:
        """Whether the bytes are in memory."""
        return self._bytes is not None

    @property
    def raw(self) -> memoryview:
        """The bytes; read and checked by the first who asks; ModelFileError."""
        found = self._bytes
        return self.read() if found is None else found

    def read(self) -> memoryview:
        """Return the bytes, as `raw` does."""
        with self._lock:
            if self._bytes is not None:
                return self._bytes
            tensor, file = self._tensor, self._file
            raw = file.load(tensor.name)
            read = Matrix(
                format=self.format, n_rows=self.n_rows, n_cols=self.n_cols, raw=raw
            )
            try:
                check_matrix(read)
            except MatrixMalformed as exc:
                raise ModelFileError(file.path, str(exc), tensor=tensor.name) from exc
            object.__setattr__(self, "_bytes", raw)
            file.close()
            return raw
