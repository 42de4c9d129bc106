"""Data folders that are none, are read-only or full: one line, and nothing lost."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import (
    NO_FILES,
    Outcome,
    Running,
    assert_one_error,
    run,
    run_all,
)

pytestmark = pytest.mark.slow

RELAY = ("relay", "--self-signed", "--listen", "127.0.0.1:0")


@pytest.fixture(scope="module")
def invite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("network")
    relay = Running(folder, *RELAY, "--data", str(folder / "net"))
    yield relay.report["invite"]
    relay.kill()


def commands(invite: str) -> dict[str, tuple[str, ...]]:
    member = ("--invite", invite)
    return {
        "relay": RELAY,
        "serve": ("serve", "pocket", "--listen", "127.0.0.1:0", *member),
        "contribute": ("contribute", "--yes", "--memory", "64M", *member),
        "market": ("market", *member),
        "ledgerd": ("ledgerd", *member),
    }


def run_on(folder: str, invite: str) -> dict[str, Outcome]:
    """Run each command on one folder."""
    return run_all(
        {name: (*words, "--data", folder) for name, words in commands(invite).items()}
    )


def test_a_file_in_the_folders_place(tmp_path: Path, invite: str) -> None:
    (tmp_path / "file").write_text("mine")
    for outcome in run_on(str(tmp_path / "file"), invite).values():
        assert_one_error(outcome, str(tmp_path / "file"))
    assert_one_error(run("ledger", "verify", "--data", str(tmp_path / "file")), "file")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A file system that takes no writing, where the system lets us mount one."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", str(folder))
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("this user may not mount a read-only file system")
    yield folder
    subprocess.run(("umount", str(folder)), check=True)


def test_a_read_only_folder(read_only: Path, invite: str) -> None:
    for outcome in run_on(str(read_only), invite).values():
        assert_one_error(outcome, str(read_only), "read-only file system")


def test_a_full_disk_at_the_first_start_leaves_nothing_behind(
    tmp_path: Path, invite: str
) -> None:
    folders = {name: tmp_path / name for name in commands(invite)}
    outcomes = run_all(
        {
            name: (*words, "--data", str(folders[name]))
            for name, words in commands(invite).items()
        },
        within=NO_FILES,
    )
    for name, outcome in outcomes.items():
        assert_one_error(outcome, str(folders[name]), "file too large")
        assert list(folders[name].iterdir()) == []


def test_a_full_disk_at_a_later_start_loses_no_key(tmp_path: Path) -> None:
    folder = tmp_path / "net"
    first = Running(tmp_path, *RELAY, "--data", str(folder))
    assert first.stop() == 0
    before = contents(folder)
    outcome = run(*RELAY, "--data", str(folder), within=NO_FILES)
    assert_one_error(outcome, "file")
    assert contents(folder).items() >= before.items()
    second = Running(tmp_path, *RELAY, "--data", str(folder))
    for name in ("relay_id", "market", "ledger"):
        assert second.report[name] == first.report[name]
    assert second.stop() == 0


def contents(folder: Path) -> dict[str, bytes]:
    """Return what the files hold that a start must not touch."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and path.suffix in {".key", ".identity", ".id", ".json"}
    }
