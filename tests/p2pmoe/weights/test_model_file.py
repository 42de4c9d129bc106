import os
from pathlib import Path

import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.errors import ModelFileError, ModelFileTruncated
from p2pmoe.weights.model_file import open_model
from tests.support.gguf_writer import TensorBytes, write_gguf

CONTENT = bytes(range(256)) * 64  # 16 KiB
TENSOR = TensorBytes(name="w", type=Format.F32, shape=(64, 64), content=CONTENT)
META = {"general.architecture": "olmoe"}


def n_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "m.gguf", META, [TENSOR])


def test_tensors_and_ranges_are_read(path: Path) -> None:
    with open_model(path) as model:
        assert model.read("w") == CONTENT
        offset = model.tensors["w"].offset
        assert model.read_range(offset + 5, 3) == b"\5\6\7"
        assert model.read_range(offset, 0) == b""
        assert model.n_bytes == path.stat().st_size


def test_a_missing_tensor_and_a_bad_range_are_refused(path: Path) -> None:
    with open_model(path) as model:
        with pytest.raises(ModelFileError, match="tensor 'x': is missing"):
            model.read("x")
        with pytest.raises(ModelFileError, match="no range"):
            model.read_range(-1, 4)


def test_b03_cut_before_start_is_refused_with_both_sizes(path: Path) -> None:
    size = path.stat().st_size
    os.truncate(path, size - 4097)
    with pytest.raises(
        ModelFileTruncated, match=f"needs {size} bytes, has {size - 4097}"
    ) as caught:
        open_model(path)
    assert caught.value.exit_code == 2


def test_b03_cut_while_serving_is_an_error_and_the_process_lives(path: Path) -> None:
    with open_model(path) as model:
        os.truncate(path, 4096)
        needed = model.tensors["w"].offset + 16384
        with pytest.raises(ModelFileTruncated, match=f"needs {needed} bytes, has 4096"):
            model.read("w")
        with pytest.raises(ModelFileError, match="was written to since it was opened"):
            model.read_range(0, 4)


def test_b03_replaced_by_rename_is_harmless(path: Path, tmp_path: Path) -> None:
    with open_model(path) as model:
        other = tmp_path / "other"
        other.write_bytes(b"something else")
        other.rename(path)
        assert model.read("w") == CONTENT


def test_a_closed_file_says_so(path: Path) -> None:
    model = open_model(path)
    model.close()
    model.close()
    with pytest.raises(ModelFileError, match="is closed"):
        model.read("w")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be opened") as caught:
        open_model(tmp_path / "nothing")
    assert "SHA-256" not in caught.value.advice  # there is nothing to compare
    with pytest.raises(ModelFileError, match="holds no model"):
        open_model(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="no regular file"):
        open_model(tmp_path / "pipe")


def test_a_share_reads_on_after_its_opener_has_closed(path: Path) -> None:
    model = open_model(path)
    first, second = model.share(), model.share()
    model.close()
    with pytest.raises(ModelFileError, match="is closed"):
        model.share()
    assert first.read("w") == CONTENT
    first.close()
    first.close()
    assert bytes(second.load("w")) == CONTENT
    n_open = n_open_files()
    second.close()
    assert n_open_files() == n_open - 1


def test_a_share_that_is_forgotten_closes_the_file(path: Path) -> None:
    n_open = n_open_files()
    with open_model(path) as model:
        share = model.share()
    assert n_open_files() == n_open + 1
    del model, share
    assert n_open_files() == n_open
