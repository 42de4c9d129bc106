"""What the doctor says of this host."""

import errno
import shutil
import socket
import tempfile
from types import SimpleNamespace

import pytest

from mobile_worker.arithmetic.errors import KernelUnavailable
from p2pmoe.doctor import machine
from p2pmoe.doctor.findings import Verdict
from relay.errors import ListenError
from tests.support.trio_test import trio_test


def test_what_computes_is_tested() -> None:
    found = machine.kernel("numpy")
    assert (found.check, found.verdict) == ("kernel", Verdict.WARNING)
    assert "numpy" in found.text
    assert found.advice


def test_a_kernel_that_is_not_there(monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise KernelUnavailable("native: not built", advice="install a compiler")

    monkeypatch.setattr(machine, "choose_kernel", refuse)
    found = machine.kernel(None)
    assert found.verdict is Verdict.FAULT
    assert found.advice == "install a compiler"


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(50 << 30, Verdict.OK), (1 << 30, Verdict.WARNING), (9 << 20, Verdict.FAULT)],
)
def test_the_disk(tmp_path, monkeypatch, free: int, verdict: Verdict) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    found = machine.disk(tmp_path / "not" / "made" / "yet")
    assert found.verdict is verdict
    assert str(tmp_path) in found.text
    assert bool(found.advice) == (verdict is not Verdict.OK)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_takes_no_file(tmp_path, monkeypatch) -> None:
    def refuse(**_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    found = machine.disk(tmp_path)
    assert found.verdict is Verdict.FAULT
    assert "read-only file system" in found.text
    assert "--data" in found.advice


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [
        (None, Verdict.OK),
        (20_000, Verdict.OK),
        (1024, Verdict.NOTE),
        (64, Verdict.WARNING),
    ],
)
def test_open_files(limit: int | None, verdict: Verdict) -> None:
    found = machine.open_files(limit)
    assert found.verdict is verdict
    assert bool(found.advice) == (verdict is not Verdict.OK)


def test_the_limit_is_a_number_or_none() -> None:
    limit = machine.file_limit()
    assert limit is None or limit > 0


@trio_test
async def test_the_port_of_a_relay() -> None:
    assert (await machine.relay_port(0)).verdict is Verdict.OK
    with socket.create_server(("", 0)) as taken:
        found = await machine.relay_port(taken.getsockname()[1])
    assert found.verdict is Verdict.NOTE
    assert "in use" in found.text


@trio_test
async def test_a_port_that_needs_a_privilege(monkeypatch) -> None:
    async def refuse(*_: object) -> None:
        raise ListenError("no permission to listen on port 443", advice="use authbind")

    monkeypatch.setattr(machine, "open_listeners", refuse)
    found = await machine.relay_port()
    assert found.verdict is Verdict.NOTE
    assert "no permission" in found.text
    assert "authbind" in found.advice
