from collections.abc import Iterator
from pathlib import Path

import pytest

from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.find import (
    GgufPart,
    SafetensorsFolder,
    find_model,
    names_like,
    parse_part_name,
    part_name,
)
from p2pmoe.weights.model_file import read_header


def fill(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"")
    return folder


@pytest.mark.parametrize(
    "named",
    ["", "model.safetensors", "model.safetensors.index.json", "config.json"],
)
def test_safetensors_are_their_folder_whatever_of_it_is_named(
    tmp_path: Path, named: str
) -> None:
    fill(tmp_path, "config.json", "model.safetensors", "model.safetensors.index.json")
    fill(tmp_path, "model-f32.gguf", "tokenizer.json")
    assert find_model(tmp_path / named) == SafetensorsFolder(tmp_path)


def test_a_file_is_itself_even_where_it_is_not_there(tmp_path: Path) -> None:
    assert find_model(tmp_path / "m.gguf") == GgufPart(tmp_path / "m.gguf")
    fill(tmp_path, "config.json", "model.safetensors", "m.gguf")
    assert find_model(tmp_path / "m.gguf") == GgufPart(tmp_path / "m.gguf")


@pytest.mark.parametrize(
    "names",
    [
        ["m.gguf"],
        ["m.GGUF", "README.md", "config.json"],
        ["m.gguf", "mmproj-F16.gguf", "imatrix_unsloth.gguf", "._m.gguf"],
    ],
)
def test_a_folder_with_one_file_is_that_file(tmp_path: Path, names: list[str]) -> None:
    fill(tmp_path, *names)
    assert find_model(tmp_path) == GgufPart(tmp_path / names[0])


def test_a_folder_with_one_set_is_that_set_though_parts_are_missing(
    tmp_path: Path,
) -> None:
    fill(tmp_path, "m-00002-of-00003.gguf", "m-00003-of-00003.gguf")
    assert find_model(tmp_path) == GgufPart(tmp_path / "m-00002-of-00003.gguf")


def test_more_than_one_model_is_refused_and_all_are_listed(tmp_path: Path) -> None:
    fill(tmp_path, "m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "n.gguf")
    with pytest.raises(
        ModelFileError, match=r"holds 2 models: m-00001-of-00002\.gguf, n\.gguf"
    ) as caught:
        find_model(tmp_path)
    assert caught.value.advice == "name one of them"


def test_folders_without_a_model_say_what_is_missing(tmp_path: Path) -> None:
    empty = fill(tmp_path / "empty", "mmproj.gguf")
    with pytest.raises(ModelFileError, match="holds no model"):
        find_model(empty)
    fill(fill(tmp_path / "hub", "README.md") / "Q4_K_M", "m.gguf")
    with pytest.raises(ModelFileError, match="holds no model") as caught:
        find_model(tmp_path / "hub")
    assert caught.value.advice == "models lie in: Q4_K_M"
    bare = fill(tmp_path / "bare", "model.safetensors")
    with pytest.raises(ModelFileError, match=r"safetensors but no config\.json"):
        find_model(bare)
    with pytest.raises(ModelFileError, match=r"no config\.json beside it"):
        find_model(bare / "model.safetensors")
    with pytest.raises(ModelFileError, match="is no file"):
        find_model(bare / "other.safetensors")


def test_a_name_that_is_not_there_says_which_are_like_it(tmp_path: Path) -> None:
    fill(tmp_path, "Qwen3-Q4_K_M.gguf", "Qwen3-Q4_K_S.gguf", "qwen3q4km.txt")
    fill(tmp_path / "GLM-4.5", "config.json")
    small, medium = (tmp_path / f"Qwen3-Q4_K_{size}.gguf" for size in "SM")
    for name in ("Qwen3-Q4_K_M", "qwen3_q4_k_m.gguf", "Qwem3-Q4_K_M.gguf"):
        assert names_like(tmp_path / name) == f"did you mean {medium}?"
    near = names_like(tmp_path / "Qwen3-Q4_K_L.gguf")
    assert near == f"did you mean {medium}, {small}?"
    assert names_like(tmp_path / "glm4.5") == f"did you mean {tmp_path}/GLM-4.5?"
    for name in ("Qwen/Qwen3-30B-A3B", "qwen3q4km.txt/other.gguf", "llama", "x" * 300):
        assert "of this machine" in names_like(tmp_path / name)


def test_what_lies_beside_weights_names_its_folder(tmp_path: Path) -> None:
    fill(tmp_path, "config.json", "model.safetensors", "tokenizer.json")
    with pytest.raises(ModelFileError, match="holds no weights") as caught:
        find_model(tmp_path / "tokenizer.json")
    assert "folder" in caught.value.advice


@pytest.mark.parametrize("name", ["m.gguf-split-a", "m.Q4_K.gguf.part1of3"])
def test_pieces_cut_by_bytes_must_be_joined(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelFileError, match="cut by bytes") as caught:
        find_model(tmp_path / name)
    assert "cat PIECES" in caught.value.advice


def test_pickled_weights_are_never_opened(tmp_path: Path) -> None:
    fill(tmp_path, "config.json", "pytorch_model.bin")
    for path in (tmp_path, tmp_path / "pytorch_model.bin"):
        with pytest.raises(UnsupportedModel, match="pickled") as caught:
            find_model(path)
        assert "safetensors or GGUF" in caught.value.advice


@pytest.mark.parametrize("others", [(), ("config.json",), ("tokenizer.json",)])
def test_an_adapter_is_named_as_what_it_is(
    tmp_path: Path, others: tuple[str, ...]
) -> None:
    fill(tmp_path, "adapter_config.json", "adapter_model.safetensors", *others)
    with pytest.raises(UnsupportedModel, match="adapter") as caught:
        find_model(tmp_path)
    assert "base model" in caught.value.advice
    fill(tmp_path, "config.json", "model.safetensors")
    assert find_model(tmp_path) == SafetensorsFolder(tmp_path)


def test_what_may_not_be_looked_at_is_no_model_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(fill(tmp_path / "shelf") / "closed", "m.gguf")
    fill(tmp_path / "shelf" / "open", "m.gguf")
    look = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return look(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    with pytest.raises(ModelFileError, match="holds no model") as caught:
        find_model(tmp_path / "shelf")
    assert caught.value.advice == "models lie in: open"


def test_names_of_parts_are_read_and_written() -> None:
    part = parse_part_name(Path("a-b-00002-of-00010.gguf"))
    assert part is not None
    assert (part.stem, part.number, part.count) == ("a-b", 2, 10)
    assert part_name("a-b", 2, 10) == "a-b-00002-of-00010.gguf"
    for name in ("m.gguf", "m-00000-of-00002.gguf", "m-00003-of-00002.gguf"):
        assert parse_part_name(Path(name)) is None


@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + ".safetensors"])
def test_a_name_too_long_to_be_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelFileError):
        read_header(tmp_path / name)
