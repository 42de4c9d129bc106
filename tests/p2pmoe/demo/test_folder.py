"""The demo's folder: temporary, or kept and empty at first."""

import tempfile

import pytest

from p2pmoe.demo.folder import FolderNotEmpty, demo_folder
from p2pmoe.errors import ConfigurationError


def test_a_temporary_folder_is_gone_afterwards():
    with demo_folder(None) as folder:
        (folder / "log").write_text("x", encoding="utf-8")
    assert not folder.exists()


def test_a_kept_folder_stays(tmp_path):
    with demo_folder(str(tmp_path / "new" / "folder")) as folder:
        (folder / "log").write_text("x", encoding="utf-8")
    assert (folder / "log").exists()


def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "precious").write_text("x", encoding="utf-8")
    with (
        pytest.raises(FolderNotEmpty, match="not an empty folder"),
        demo_folder(str(tmp_path)),
    ):
        pass


def test_a_file_is_no_folder(tmp_path):
    path = tmp_path / "file"
    path.write_text("", encoding="utf-8")
    with pytest.raises(FolderNotEmpty), demo_folder(str(path)):
        pass


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="not a directory"):
        with demo_folder(str(tmp_path / "file" / "below")):
            pass
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match="no such file or directory"):
        with demo_folder(None):
            pass
