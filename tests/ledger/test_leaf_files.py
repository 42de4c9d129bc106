"""Leaf files: what was committed stays, what was not is cut off."""

import os

import pytest

from ledger import leaf_files as module
from ledger.errors import DifferenceFound, LeavesPruned, StoreUnavailable
from ledger.leaf_files import (
    LeafFiles,
    LeafPlace,
    leaf_path,
    mark_pruned,
    packed_path,
    pruned_path,
    read_leaves,
)
from ledger.leaf_packs import pack_leaf_file


def test_blocks_read_back_from_their_places(tmp_path):
    files = LeafFiles(tmp_path / "leaves", {})
    places = [files.append(bytes([n]) * 79) for n in range(3)]
    files.sync()
    files.commit()
    files.close()
    for n, place in enumerate(places):
        assert read_leaves(tmp_path / "leaves", place, 79) == bytes([n]) * 79
    assert read_leaves(tmp_path / "nowhere", LeafPlace(9, 0), 0) == b""


def test_what_was_not_committed_is_cut_off(tmp_path):
    files = LeafFiles(tmp_path, {})
    files.append(b"a" * 79)
    files.write()
    files.append(b"never written")
    files.close()
    (tmp_path / "00000002.leaves").write_bytes(b"never known")
    again = LeafFiles(tmp_path, {1: 40})
    assert (tmp_path / "00000001.leaves").stat().st_size == 40
    assert not (tmp_path / "00000002.leaves").exists()
    assert again.append(b"b") == LeafPlace(1, 40)
    again.close()


def test_what_was_committed_must_be_there(tmp_path):
    (tmp_path / "00000001.leaves").write_bytes(bytes(10))
    with pytest.raises(DifferenceFound, match="has 10 bytes, needs 79"):
        LeafFiles(tmp_path, {1: 79})
    with pytest.raises(DifferenceFound, match="needs 20"):
        read_leaves(tmp_path, LeafPlace(1, 0), 20)
    with pytest.raises(DifferenceFound):
        read_leaves(tmp_path, LeafPlace(2, 0), 20)


def test_a_full_file_is_closed_and_a_new_one_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_FILE_BYTES", 100)
    files = LeafFiles(tmp_path, {})
    for file in (1, 1, 2):
        assert files.append(bytes(79)).file == file
        files.sync()
        files.commit()
    assert files.length_bytes == 79
    files.close()


def test_blocks_are_written_together_but_not_kept_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_WRITE_BYTES", 100)
    sizes = []
    real = os.write
    monkeypatch.setattr(
        os, "write", lambda fd, raw: sizes.append(len(raw)) or real(fd, raw)
    )
    files = LeafFiles(tmp_path, {})
    for _ in range(3):
        files.append(bytes(79))
    assert (sizes, files.length_bytes) == ([158], 237)
    files.sync()
    assert sizes == [158, 79]
    files.close()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable):
        LeafFiles(tmp_path / "file" / "leaves", {})


def test_a_short_write_goes_on(tmp_path, monkeypatch):
    files = LeafFiles(tmp_path, {})
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, raw: real(fd, raw[:30]))
    place = files.append(bytes(range(79)))
    files.write()
    monkeypatch.undo()
    assert read_leaves(tmp_path, place, 79) == bytes(range(79))
    files.close()


def test_packed_leaves_read_as_plain_ones(tmp_path):
    plain = bytes(range(79)) * 3
    leaf_path(tmp_path, 1).write_bytes(plain)
    pack_leaf_file(leaf_path(tmp_path, 1), packed_path(tmp_path, 1), len(plain))
    leaf_path(tmp_path, 1).unlink()
    assert read_leaves(tmp_path, LeafPlace(1, 79), 79) == plain[79:158]
    LeafFiles(tmp_path, {1: len(plain), 2: 0}).close()  # as long as committed
    with pytest.raises(DifferenceFound, match="has 237 bytes, needs 316"):
        LeafFiles(tmp_path, {1: 316, 2: 0})
    with pytest.raises(DifferenceFound, match="has 237 bytes, needs 79"):
        LeafFiles(tmp_path, {1: 79, 2: 0})


def test_pruned_leaves_are_named_as_such(tmp_path):
    leaf_path(tmp_path, 1).write_bytes(bytes(79))
    mark_pruned(tmp_path, 1, b"d" * 32)
    mark_pruned(tmp_path, 1, b"d" * 32)
    assert [path.name for path in tmp_path.iterdir()] == ["00000001.pruned"]
    assert pruned_path(tmp_path, 1).read_text() == "64" * 32 + "\n"
    with pytest.raises(LeavesPruned, match="pruned"):
        read_leaves(tmp_path, LeafPlace(1, 0), 79)
    LeafFiles(tmp_path, {1: 79, 2: 0}).close()


def test_what_was_left_half_written_goes_and_strangers_stay(tmp_path):
    names = ("00000001.packed.tmp", "00000009.packed", "notes.leaves", "README")
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    LeafFiles(tmp_path, {}).close()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"00000001.leaves", "notes.leaves", "README"}
