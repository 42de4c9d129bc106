"""Shards on disk: listed and removed as the store names them, nothing else touched."""

import os

from p2pmoe.contributor.shards_here import list_shards, remove_shards

ONE, TWO, THREE = "a" * 64, "b" * 64, "c" * 64


def filled(folder):
    folder.mkdir()
    (folder / f"{ONE}.shard").write_bytes(b"x" * 10)
    (folder / f"{TWO}.part").write_bytes(b"y" * 4)
    os.utime(folder / f"{TWO}.part", ns=(1, 1))
    (folder / "notes.txt").write_text("mine")
    (folder / f"{THREE}.shard").symlink_to(folder / "notes.txt")
    (folder / "A.shard").touch()
    return folder


def test_what_the_store_wrote_is_listed(tmp_path):
    found = list_shards(filled(tmp_path / "shards"))
    assert [(each.digest, each.is_whole, each.n_bytes) for each in found] == [
        (ONE, True, 10),
        (TWO, False, 4),
    ]
    assert list_shards(tmp_path / "none") == []


def test_what_is_kept_and_what_is_not_the_stores_stays(tmp_path):
    folder = filled(tmp_path / "shards")
    assert remove_shards(folder, keep={ONE}) == (1, 4)
    assert remove_shards(folder) == (1, 10)
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["A.shard", f"{THREE}.shard", "notes.txt"]
    assert (folder / "notes.txt").read_text() == "mine"
