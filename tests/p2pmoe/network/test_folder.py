import errno
import os
import stat
from pathlib import Path

import pytest

from mobile_worker.errors import IdentityInUse
from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import (
    OperatorFolder,
    Service,
    default_folder,
    locked,
    read_bounded,
    replace_file,
)


def test_a_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    assert OperatorFolder(path).path == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    OperatorFolder(path)


def test_a_file_in_the_folders_place_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(FolderUnusable, match=str(path)) as caught:
        OperatorFolder(path)
    assert "--data" in caught.value.advice


def test_a_services_id_is_known_while_another_process_has_its_identity(
    tmp_path: Path,
) -> None:
    folder = OperatorFolder(tmp_path)
    known = folder.service_id(Service.MARKET)
    identity = folder.identity(Service.MARKET)
    assert identity.peer_id == known
    assert folder.service_id(Service.MARKET) == known
    with pytest.raises(IdentityInUse):
        folder.identity(Service.MARKET)
    identity.release()
    assert folder.service_id(Service.LEDGER) != known


def test_a_damaged_id_file_is_named(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path)
    (tmp_path / "ledger.id").write_text("nonsense")
    with pytest.raises(FolderUnusable, match=r"ledger\.id"):
        folder.service_id(Service.LEDGER)


def test_an_id_file_is_replaced_whole_or_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = OperatorFolder(tmp_path)
    folder.service_id(Service.MARKET)
    before = (tmp_path / "market.id").stat()
    folder.identity(Service.MARKET).release()
    assert (tmp_path / "market.id").stat().st_mtime_ns == before.st_mtime_ns
    (tmp_path / "market.id").write_text("another")

    def refuse(self: Path, *_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(FolderUnusable, match="no space left"):
        folder.identity(Service.MARKET)
    assert (tmp_path / "market.id").read_text() == "another"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "market.id",
        "market.identity",
    ]
    monkeypatch.undo()
    folder.identity(Service.MARKET).release()  # it was let go


def test_every_file_has_its_own_name(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path)
    paths = {
        folder.relay_key,
        folder.network_key,
        folder.invite,
        folder.market_memory,
        folder.ledger,
        folder.invites,
        folder.invite_files,
        folder.revocations,
        folder.relay_map,
        folder.acme,
    }
    assert len(paths) == 10
    assert {path.parent for path in paths} == {tmp_path}


def test_a_file_is_read_up_to_a_bound_and_replaced_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    assert read_bounded(path, 4) is None
    replace_file(path, b"1234")
    assert read_bounded(path, 4) == b"1234"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FolderUnusable, match="larger than 3 bytes"):
        read_bounded(path, 3)
    with pytest.raises(FolderUnusable, match=str(tmp_path)):
        read_bounded(tmp_path, 3)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FolderUnusable, match="no regular file"):
        read_bounded(tmp_path / "pipe", 3)
    (tmp_path / "pipe").unlink()

    def refuse(self: Path, *_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(FolderUnusable, match="no space left"):
        replace_file(path, b"5")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"1234"


def test_what_root_writes_is_the_folders_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        os, "chown", lambda path, uid, gid: given.append((path.parent.name, uid, gid))
    )
    replace_file(tmp_path / "file", b"1")
    owner = tmp_path.stat()
    assert given == [(tmp_path.name, owner.st_uid, owner.st_gid)]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    replace_file(tmp_path / "file", b"2")
    assert len(given) == 1


def test_the_lock_of_a_folder_that_is_gone(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path / "net")
    with locked(folder):
        assert not folder.knows(Service.MARKET)
    folder.path.rmdir()
    with pytest.raises(FolderUnusable), locked(folder):
        pass


def test_the_default_is_the_platforms() -> None:
    assert default_folder().is_absolute()
    assert "p2pmoe" in default_folder().parts
