"""The identity file: made once, read again, locked, refused with one line."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mobile_worker.errors import IdentityError, IdentityInUse
from mobile_worker.session.identity import (
    Identity,
    is_in_use,
    load_or_create,
    parse_identity,
    read_to_sign,
    write_identity,
)
from relay.keys import verify

ROOT = Path(__file__).resolve().parents[3]


def test_it_is_made_once_and_read_again(tmp_path):
    path = tmp_path / "keys" / "identity"
    first = load_or_create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]
    first.release()
    again = load_or_create(path)
    assert (again.peer_id, again.static_key) == (first.peer_id, first.static_key)
    assert verify(again.peer_id, b"text", first.sign(b"text"))
    again.release()


def test_a_second_use_is_refused(tmp_path):
    path = tmp_path / "identity"
    identity = load_or_create(path)
    with pytest.raises(IdentityInUse, match="in use"):
        load_or_create(path)
    identity.release()
    load_or_create(path).release()


def test_whether_it_is_in_use_can_be_asked_without_taking_it(tmp_path):
    path = tmp_path / "identity"
    assert not is_in_use(path)
    identity = load_or_create(path)
    assert is_in_use(path)
    identity.release()
    assert not is_in_use(path)
    load_or_create(path).release()


def test_one_that_was_kept_is_written_where_there_is_none(tmp_path):
    path = tmp_path / "new" / "identity"
    kept, other = Identity.generate(), Identity.generate()
    write_identity(path, kept)
    assert path.stat().st_mode & 0o777 == 0o600
    write_identity(path, other)
    assert read_to_sign(path).text() == kept.text()
    assert parse_identity(kept.text(), "a copy").peer_id == kept.peer_id
    with pytest.raises(IdentityError, match="file a copy is damaged"):
        parse_identity("nonsense", "a copy")


def test_papers_are_signed_while_another_holds_the_key(tmp_path):
    path = tmp_path / "identity"
    with pytest.raises(IdentityError, match="no such file"):
        read_to_sign(path)
    assert not path.exists()
    identity = load_or_create(path)
    reader = read_to_sign(path)
    assert reader.peer_id == identity.peer_id
    assert verify(identity.peer_id, b"paper", reader.sign(b"paper"))
    with pytest.raises(IdentityInUse):
        load_or_create(path)
    path.chmod(0o644)
    with pytest.raises(IdentityError, match="read by others"):
        read_to_sign(path)
    identity.release()


def test_two_processes_with_one_key(tmp_path):
    path = tmp_path / "identity"
    identity = load_or_create(path)
    code = (
        "import sys; from pathlib import Path\n"
        "from mobile_worker.session.identity import load_or_create\n"
        "from mobile_worker.errors import IdentityInUse\n"
        "try:\n    load_or_create(Path(sys.argv[1]))\n"
        "except IdentityInUse:\n    sys.exit(7)\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 7
    identity.release()
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def test_the_lock_ends_with_the_object(tmp_path):
    path = tmp_path / "identity"
    load_or_create(path)  # nobody keeps it
    load_or_create(path).release()


def test_a_file_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "identity"
    load_or_create(path).release()
    path.chmod(0o644)
    with pytest.raises(IdentityError, match=r"mode 0644") as caught:
        load_or_create(path)
    assert caught.value.advice == f"Run: chmod 600 {path}"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"p2pmoe identity v1\n",
        b"p2pmoe identity v2\ned25519 " + b"00" * 32 + b"\nx25519 " + b"00" * 32,
        b"p2pmoe identity v1\ned25519 " + b"00" * 31 + b"\nx25519 " + b"00" * 32,
        b"p2pmoe identity v1\ned25519 " + b"zz" * 32 + b"\nx25519 " + b"00" * 32,
        b"p2pmoe identity v1\ned25519 " + b"00" * 32 + b"\n",
    ],
)
def test_a_damaged_file_is_refused_and_kept(tmp_path, content):
    path = tmp_path / "identity"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(IdentityError, match="damaged"):
        load_or_create(path)
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(IdentityError, match="cannot write identity file"):
        load_or_create(blocked / "identity")


def test_a_folder_in_place_of_the_file(tmp_path):
    path = tmp_path / "identity"
    path.mkdir(mode=0o700)
    with pytest.raises(IdentityError) as caught:
        load_or_create(path)
    assert "\n" not in str(caught.value)


def test_a_read_only_folder(tmp_path, monkeypatch):
    def refuse(*_):  # what the system says; root may write anywhere else
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(IdentityError, match="read-only file system"):
        load_or_create(tmp_path / "identity")


def test_a_full_disk_leaves_no_half_written_key(tmp_path, monkeypatch):
    def refuse(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(IdentityError, match="no space left on device"):
        load_or_create(tmp_path / "identity")
    assert list(tmp_path.iterdir()) == []


def test_nothing_secret_is_printed():
    identity = Identity.from_seeds(bytes(range(32)), bytes(range(32)))
    assert bytes(range(8)).hex() not in repr(identity)
