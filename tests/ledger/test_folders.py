"""Names made durable."""

import os

import pytest

from ledger.folders import sync_folder


def test_the_folder_itself_is_synced_and_closed(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append((handle, os.fstat(handle).st_ino))
    )
    sync_folder(tmp_path)
    [(handle, inode)] = synced
    assert inode == tmp_path.stat().st_ino
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(handle)


def test_a_folder_that_is_gone_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "gone")
