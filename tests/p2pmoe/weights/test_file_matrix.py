import os
import threading
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.errors import ModelFileError, ModelFileTruncated
from p2pmoe.weights.file_matrix import FileMatrix
from p2pmoe.weights.model_file import open_model
from tests.support.gguf_writer import TensorBytes, write_gguf

META = {"general.architecture": "olmoe"}
VALUES = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)


def write(folder: Path, values: np.ndarray = VALUES) -> Path:
    tensor = TensorBytes(
        name="w", type=Format.F32, shape=values.shape, content=values.tobytes()
    )
    return write_gguf(folder / "m.gguf", META, [tensor])


def promised(path: Path) -> FileMatrix:
    with open_model(path) as model_file:
        return FileMatrix(model_file, model_file.tensor("w"))


def test_bytes_are_read_at_the_first_look_though_the_file_is_closed(
    tmp_path: Path,
) -> None:
    matrix = promised(write(tmp_path))
    assert (matrix.format, matrix.n_rows, matrix.n_cols) == (Format.F32, 4, 64)
    assert not matrix.is_read
    raw = matrix.raw
    assert bytes(raw) == VALUES.tobytes()
    assert matrix.is_read
    assert matrix.raw is raw


def test_a_file_is_given_free_once_its_matrix_is_read(tmp_path: Path) -> None:
    path = write(tmp_path)
    n_open = len(list(Path("/proc/self/fd").iterdir()))
    matrix = promised(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == n_open + 1
    assert matrix.raw
    assert len(list(Path("/proc/self/fd").iterdir())) == n_open


def test_many_threads_get_one_copy(tmp_path: Path) -> None:
    matrix = promised(write(tmp_path))
    found: list[memoryview] = []
    threads = [
        threading.Thread(target=lambda: found.append(matrix.raw)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(raw) for raw in found}) == 1


def test_b03_a_file_cut_short_later_is_an_error_at_each_look(tmp_path: Path) -> None:
    path = write(tmp_path)
    matrix = promised(path)
    whole = path.read_bytes()
    os.truncate(path, 256)
    for _ in range(2):
        with pytest.raises(ModelFileTruncated, match=f"needs {len(whole)} bytes"):
            matrix.raw  # noqa: B018
    path.write_bytes(whole)
    with pytest.raises(ModelFileError, match="was written to"):
        matrix.raw  # noqa: B018


def test_a_weight_that_is_no_number_names_the_tensor(tmp_path: Path) -> None:
    bad = VALUES.copy()
    bad[2, 5] = np.nan
    matrix = promised(write(tmp_path, bad))
    for _ in range(2):
        with pytest.raises(ModelFileError, match=r"tensor 'w': row 2 of a F32 matrix"):
            matrix.raw  # noqa: B018
    assert not matrix.is_read


def test_a_shape_that_is_no_matrix_is_refused_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, np.zeros((4, 16), np.float32))
    with open_model(path) as model_file:
        with pytest.raises(ModelFileError, match="tensor 'w': a matrix of 4 x 16"):
            FileMatrix(model_file, model_file.tensor("w"))


def test_a_file_knows_what_it_has_promised(tmp_path: Path) -> None:
    with open_model(write(tmp_path)) as model_file:
        assert model_file.unread() == []
        matrix = FileMatrix(model_file, model_file.tensor("w"))
        assert model_file.share().unread() == [matrix]
        assert matrix.tensor.name == "w"
        matrix.read()
        assert model_file.unread() == []
        FileMatrix(model_file, model_file.tensor("w"))  # forgotten at once
        assert model_file.unread() == []
