"""Fault B06: a name from an index never leads out of its folder."""

import json
import os
from pathlib import Path

import pytest

from p2pmoe.weights.errors import ModelFileError, ModelFileTruncated
from p2pmoe.weights.huggingface.weight_files import (
    INDEX_NAME,
    inside,
    read_small,
    weight_files,
)

PWN = Path("/", "tmp", "p2pmoe-pwn")

NAMES = {
    "upwards": "../../../tmp/p2pmoe-pwn",
    "upwards_with_ending": "../../../tmp/p2pmoe-pwn.safetensors",
    "absolute": f"{PWN}.safetensors",
    "below": "part/model.safetensors",
    "windows": "..\\model.safetensors",
    "drive": "c:model.safetensors",
    "nul": "model\0.safetensors",
    "newline": "model\n.safetensors",
    "long": "m" * 300 + ".safetensors",
    "long_in_bytes": "é" * 130 + ".safetensors",
    "hidden": ".model.safetensors",
    "dots": "..",
    "empty": "",
    "other_ending": "model.bin",
    "surrogate": "\ud800.safetensors",
}


def write_index(folder: Path, weight_map: object) -> Path:
    (folder / INDEX_NAME).write_text(json.dumps({"weight_map": weight_map}))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_b06_a_name_that_is_no_plain_file_name_is_refused(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "good.safetensors").write_bytes(b"")
    weight_map = {"a": "good.safetensors", "x": NAMES[name]}
    reason = r"tensor 'x', weight_map: .* plain name|index: holds half a surrogate pair"
    with pytest.raises(ModelFileError, match=reason):
        weight_files(write_index(tmp_path, weight_map))
    assert not PWN.exists()


@pytest.mark.parametrize(
    "weight_map", [None, [], {}, "x", {"a": 1}, {"a": None}, {"a\n": "m.safetensors"}]
)
def test_b06_a_weight_map_that_is_none_is_refused(
    weight_map: object, tmp_path: Path
) -> None:
    with pytest.raises(ModelFileError, match="weight_map"):
        weight_files(write_index(tmp_path, weight_map))


def test_all_missing_files_are_listed(tmp_path: Path) -> None:
    names = [f"model-{n:05d}-of-00003.safetensors" for n in (1, 2, 3)]
    (tmp_path / names[1]).write_bytes(b"")
    write_index(tmp_path, dict(zip("abc", names, strict=True)))
    with pytest.raises(ModelFileTruncated, match="lacks 2 of 3 files") as caught:
        weight_files(tmp_path)
    assert names[0] in str(caught.value)
    assert names[2] in str(caught.value)
    assert names[1] not in str(caught.value)


def test_the_single_file_or_the_index_or_neither(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="has neither model"):
        weight_files(tmp_path)
    (tmp_path / "x.safetensors").write_bytes(b"")
    found = weight_files(write_index(tmp_path, {"a": "x.safetensors"}))
    assert (found.names, found.weight_map) == (
        ("x.safetensors",),
        {"a": "x.safetensors"},
    )
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert weight_files(tmp_path).names == ("model.safetensors",)


def test_b06_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "model", tmp_path / "secret"
    folder.mkdir()
    elsewhere.write_bytes(b"secret")
    for name in ("model.safetensors", "config.json"):
        (folder / name).symlink_to(elsewhere)
    with pytest.raises(ModelFileError, match="leads out of the folder"):
        weight_files(folder)
    with pytest.raises(ModelFileError, match="leads out of the folder"):
        read_small(folder, "config.json")


def test_a_link_within_the_folder_and_a_linked_folder_are_taken(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights").write_bytes(b"x")
    (folder / "model.safetensors").symlink_to("weights")
    (tmp_path / "link").symlink_to("model")
    assert weight_files(tmp_path / "link").names == ("model.safetensors",)
    assert inside(tmp_path / "link", "model.safetensors") == folder / "weights"


def hub_cache(root: Path) -> tuple[Path, Path]:
    """Return (snapshot folder, blobs), as the hub's clients lay them out."""
    blobs = root / "models--org--name" / "blobs"
    snapshot = root / "models--org--name" / "snapshots" / "0123abcd"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    return snapshot, blobs


def test_the_hubs_cache_of_links_to_blobs_is_taken(tmp_path: Path) -> None:
    snapshot, blobs = hub_cache(tmp_path)
    (blobs / "ab12").write_bytes(b"weights")
    (blobs / "cd34").write_bytes(b"{}")
    (snapshot / "model.safetensors").symlink_to("../../blobs/ab12")
    (snapshot / "config.json").symlink_to("../../blobs/cd34")
    assert weight_files(snapshot).names == ("model.safetensors",)
    assert read_small(snapshot, "config.json") == b"{}"


@pytest.mark.parametrize("target", ["../../other", "../../blobs/../other", "../beside"])
def test_b06_a_snapshot_link_to_no_blob_is_refused(target: str, tmp_path: Path) -> None:
    snapshot, _ = hub_cache(tmp_path)
    for place in (snapshot.parent.parent / "other", snapshot.parent / "beside"):
        place.write_bytes(b"x")
    (snapshot / "model.safetensors").symlink_to(target)
    with pytest.raises(ModelFileError, match="leads out of the folder"):
        weight_files(snapshot)


def test_b06_blobs_beside_a_folder_that_is_no_snapshot_are_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "ab").write_bytes(b"x")
    folder = tmp_path / "mine" / "model"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").symlink_to("../../blobs/ab")
    with pytest.raises(ModelFileError, match="leads out of the folder"):
        weight_files(folder)


def test_a_large_or_strange_small_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(bytes(1000))
    with pytest.raises(ModelFileError, match="has 1000 bytes, more than 999"):
        read_small(tmp_path, "config.json", 999)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="is no regular file"):
        read_small(tmp_path, "pipe")
