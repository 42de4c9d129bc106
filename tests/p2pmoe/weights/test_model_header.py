from pathlib import Path

import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import read_header
from tests.support.gguf_writer import TensorBytes, gguf_bytes, write_gguf

META = {"general.architecture": "olmoe"}
TENSOR = TensorBytes(name="w", type=Format.F32, shape=(2, 32), content=b"\1" * 256)


def test_a_header_needs_no_tensor_data(tmp_path: Path) -> None:
    whole = gguf_bytes(META, [TENSOR])
    (tmp_path / "h.gguf").write_bytes(whole[:-256])
    header = read_header(tmp_path / "h.gguf")
    assert header.metadata.text("general.architecture") == "olmoe"
    assert header.tensor("w").shape == (2, 32)
    assert (header.n_bytes, header.needed_bytes) == (len(whole) - 256, len(whole))
    assert header.folder is None
    with pytest.raises(ModelFileError, match="tensor 'x': is missing"):
        header.tensor("x")


def test_fingerprints_tell_headers_and_sizes_apart_but_not_data(tmp_path: Path) -> None:
    other = TensorBytes(name="w", type=Format.F32, shape=(4, 32), content=b"\1" * 512)
    path = write_gguf(tmp_path / "a", META, [TENSOR])
    first = read_header(path).fingerprint()
    assert len(first) == 32
    path.write_bytes(path.read_bytes()[:-256])
    assert read_header(path).fingerprint() == first
    prints = {
        first,
        read_header(write_gguf(tmp_path / "b", META, [other])).fingerprint(),
        read_header(write_gguf(tmp_path / "c", META)).fingerprint(),
    }
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("meta", "path", "name"),
    [
        ({"general.name": "Own Name"}, "m.gguf", "Own Name"),
        ({"general.name": "a\nb" * 90}, "m.gguf", ("ab" * 90)[:100]),
        ({}, "some-model.Q4_0.gguf", "some-model.Q4_0"),
        ({}, "set-00001-of-00001.gguf", "set"),
    ],
)
def test_a_model_has_a_name(
    tmp_path: Path, meta: dict[str, object], path: str, name: str
) -> None:
    header = read_header(write_gguf(tmp_path / path, {**META, **meta}))
    assert header.name == name
