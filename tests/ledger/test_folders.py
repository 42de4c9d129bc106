"""Names made durable, and a folder held by one."""

import os
import sys

import pytest

from ledger.folders import lock_folder, sync_folder, unlock_folder


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


@pytest.mark.skipif(sys.platform == "win32", reason="has no such lock")
def test_one_holds_a_folder_until_it_is_given_back(tmp_path):
    handle = lock_folder(tmp_path)
    with pytest.raises(BlockingIOError):
        lock_folder(tmp_path)
    unlock_folder(handle)
    unlock_folder(lock_folder(tmp_path))


def test_where_there_is_no_such_lock_nothing_is_held(tmp_path):
    assert lock_folder(tmp_path / "gone") is None
    unlock_folder(None)
