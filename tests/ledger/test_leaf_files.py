"""Leaf files: what was committed stays, what was not is cut off."""

import os

import pytest

from ledger import leaf_files as module
from ledger.errors import DifferenceFound, StoreUnavailable
from ledger.leaf_files import LeafFiles, LeafPlace, read_leaves


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


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable):
        LeafFiles(tmp_path / "file" / "leaves", {})


def test_a_short_write_goes_on(tmp_path, monkeypatch):
    files = LeafFiles(tmp_path, {})
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, raw: real(fd, raw[:30]))
    place = files.append(bytes(range(79)))
    monkeypatch.undo()
    assert read_leaves(tmp_path, place, 79) == bytes(range(79))
    files.close()
