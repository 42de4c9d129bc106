from pathlib import Path

from p2pmoe.inspect.on_disk import files_of
from p2pmoe.weights.model_file import read_header
from tests.support.mini_m3 import write_mini_m3
from tests.support.safetensors_folder import published


def test_one_file(tmp_path: Path) -> None:
    path = write_mini_m3(tmp_path / "m-00001-of-00002.gguf")  # a name alone is no set
    found = files_of(read_header(path))
    assert (found.n_files, found.n_bytes) == (1, path.stat().st_size)


def test_a_folders_own_files_and_no_others(tmp_path: Path) -> None:
    folder = published("olmoe").write(tmp_path / "m")
    (folder / "consolidated.safetensors").write_bytes(b"another layout")
    own = folder / "model.safetensors"
    found = files_of(read_header(folder))
    assert (found.n_files, found.n_bytes) == (1, own.stat().st_size)
