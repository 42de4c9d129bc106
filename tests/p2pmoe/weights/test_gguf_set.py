import os
from pathlib import Path

import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.errors import ModelFileError, ModelFileTruncated, UnsupportedModel
from p2pmoe.weights.model_file import open_model, read_header
from tests.support.gguf_writer import TensorBytes, write_gguf

META = {"general.architecture": "olmoe", "general.name": "a set"}
NAMES = [f"m-0000{n}-of-00003.gguf" for n in (1, 2, 3)]


def tensor(number: int) -> TensorBytes:
    content = bytes([number]) * 4 * 32 * (number + 1)
    return TensorBytes(
        name=f"w{number}", type=Format.F32, shape=(number + 1, 32), content=content
    )


def write_set(folder: Path, **bent: dict[str, object]) -> list[Path]:
    """Three parts, the first without tensors, as some writers do; keys by part."""
    tensors: list[list[TensorBytes]] = [[], [tensor(0), tensor(1)], [tensor(2)]]
    paths = []
    for number, name in enumerate(NAMES):
        keys: dict[str, object] = {
            "split.no": number,
            "split.count": 3,
            "split.tensors.count": 3,
        }
        own = META if number == 0 else {}
        meta = {**own, **keys, **bent.get(f"part{number}", {})}
        paths.append(write_gguf(folder / name, meta, tensors[number]))
    return paths


@pytest.mark.parametrize("named", ["", *NAMES])
def test_any_part_or_the_folder_opens_the_whole_set(tmp_path: Path, named: str) -> None:
    paths = write_set(tmp_path)
    with open_model(tmp_path / named) as model:
        assert list(model.tensors) == ["w0", "w1", "w2"]
        for number in range(3):
            assert model.read(f"w{number}") == tensor(number).content
            assert bytes(model.load(f"w{number}")) == tensor(number).content
        assert model.metadata.text("general.name") == "a set"
        assert "split.count" not in model.metadata
        assert model.path == paths[0]
        assert model.n_bytes == sum(path.stat().st_size for path in paths)


def test_all_missing_parts_are_listed(tmp_path: Path) -> None:
    paths = write_set(tmp_path)
    paths[0].unlink()
    paths[2].unlink()
    with pytest.raises(
        ModelFileError,
        match=rf"2 of its 3 parts are missing: {NAMES[0]}, {NAMES[2]}$",
    ) as caught:
        open_model(paths[1])
    assert caught.value.advice.startswith("put all parts into one folder")


def test_a_part_that_was_renamed_says_how_it_must_be_named(tmp_path: Path) -> None:
    path = write_set(tmp_path)[0].rename(tmp_path / "mine.gguf")
    with pytest.raises(ModelFileError, match="one of 3 parts") as caught:
        open_model(path)
    assert "MODEL-00001-of-00003.gguf" in caught.value.advice


@pytest.mark.parametrize(
    ("bent", "reason"),
    [
        ({"part1": {"split.no": 2}}, "'split.no': 2 is not 1"),
        ({"part1": {"split.count": 4}}, "'split.count': 4 is not 3"),
        ({"part2": {"split.tensors.count": 9}}, "'split.tensors.count': 9 is not 3"),
        ({"part2": {"general.architecture": "llama"}}, "'llama' is not 'olmoe'"),
        (
            {"part0": {"olmoe.block_count": 3}, "part2": {"olmoe.block_count": 4}},
            "m-00003.*olmoe.block_count': is not what the first part says",
        ),
        ({"part0": {"split.no": 1}, "part1": {"split.no": 0}}, "m-00001.* 1 is not 0"),
        ({"part0": {"split.count": 2}}, "says 2 parts, its name says 3"),
        ({"part0": {"split.count": 1 << 40}}, "is not in 0..1024"),
        ({"part0": {"split.count": "3"}}, "is no integer"),
    ],
)
def test_parts_of_another_set_are_refused(
    tmp_path: Path, bent: dict[str, dict[str, object]], reason: str
) -> None:
    paths = write_set(tmp_path, **bent)
    with pytest.raises(ModelFileError, match=reason) as caught:
        open_model(paths[0])
    assert caught.value.exit_code == 2


def test_parts_may_repeat_what_the_first_says(tmp_path: Path) -> None:
    keys = {"olmoe.block_count": 3}
    other = {"olmoe.block_count": 3, "general.name": "part two"}
    paths = write_set(tmp_path, part0=keys, part1=other)
    with open_model(paths[0]) as model:
        assert model.metadata.text("general.name") == "a set"


def test_a_tensor_in_two_parts_is_refused(tmp_path: Path) -> None:
    paths = write_set(tmp_path)
    keys = {"split.no": 2, "split.count": 3, "split.tensors.count": 3}
    write_gguf(paths[2], keys, [tensor(1)])
    with pytest.raises(ModelFileError, match=rf"'w1': is in {NAMES[1]} as well"):
        open_model(paths[0])


def test_a_wrong_number_of_tensors_is_refused(tmp_path: Path) -> None:
    keys = {"split.tensors.count": 4}
    paths = write_set(tmp_path, part0=keys, part1=keys, part2=keys)
    with pytest.raises(ModelFileError, match="the parts hold 3 tensors, not 4"):
        open_model(paths[0])


def test_b03_a_part_cut_short_is_named(tmp_path: Path) -> None:
    paths = write_set(tmp_path)
    size = paths[1].stat().st_size
    os.truncate(paths[1], size - 4)
    with pytest.raises(
        ModelFileTruncated, match=rf"{NAMES[1]}, .* needs {size} bytes, has {size - 4}"
    ):
        open_model(paths[0])


def test_a_set_of_headers_alone_can_be_read(tmp_path: Path) -> None:
    paths = write_set(tmp_path)
    with open_model(paths[0]) as model:
        fingerprint, needed = model.fingerprint(), model.needed_bytes
        offsets = [t.offset for t in model.tensors.values()]
    for path, data in zip(paths[1:], (3 * 128, 3 * 128), strict=True):
        os.truncate(path, path.stat().st_size - data)
    header = read_header(paths[2])
    assert list(header.tensors) == ["w0", "w1", "w2"]
    assert [t.offset for t in header.tensors.values()] == offsets
    assert (header.fingerprint(), header.needed_bytes) == (fingerprint, needed)
    with pytest.raises(ModelFileTruncated):
        open_model(paths[0])


@pytest.mark.parametrize("count", [0, 1])
def test_a_merged_file_is_whole_whatever_its_name(tmp_path: Path, count: int) -> None:
    path = write_gguf(tmp_path / NAMES[0], {**META, "split.count": count}, [tensor(0)])
    with open_model(path) as model:
        assert model.read("w0") == tensor(0).content


@pytest.mark.parametrize("kind", ["mmproj", "adapter", "imatrix"])
def test_what_lies_beside_models_is_no_model(tmp_path: Path, kind: str) -> None:
    path = write_gguf(tmp_path / "a.gguf", {**META, "general.type": kind}, [tensor(0)])
    with pytest.raises(UnsupportedModel, match=f"is no model but of type '{kind}'"):
        open_model(path)


def test_a_projector_that_does_not_say_its_type_is_told(tmp_path: Path) -> None:
    keys = {**META, "general.architecture": "clip"}
    path = write_gguf(tmp_path / "a.gguf", keys, [tensor(0)])
    with pytest.raises(UnsupportedModel, match="is the vision or audio part") as caught:
        open_model(path)
    assert "beside it" in caught.value.advice
