"""A socket of one's own: answered, bounded, private, replaced."""

import dataclasses
import logging
import os
import socket
import stat
from pathlib import Path

import pytest
import trio

from p2pmoe.local_socket import serving
from p2pmoe.local_socket.serving import LineServer, bound_socket, peer_uid
from tests.support.trio_test import trio_test


async def shout(line: bytes) -> bytes:
    return line.upper()


def server(
    folder: Path, *, request_s: float = 10.0, is_last_word: bool = False
) -> LineServer:
    return LineServer(
        folder=folder,
        answer=shout,
        max_line_bytes=100,
        log=logging.getLogger("p2pmoe.test"),
        remedy="do without",
        request_s=request_s,
        is_last_word=is_last_word,
    )


async def say(folder: Path, line: bytes) -> bytes:
    async with await trio.open_unix_socket(str(folder / "control.sock")) as stream:
        if line:
            await stream.send_all(line)
        return bytes(await stream.receive_some())


@trio_test
async def test_a_line_is_answered_and_the_socket_is_private_and_goes(tmp_path):
    async with trio.open_nursery() as nursery:
        await nursery.start(server(tmp_path).run)
        mode = (tmp_path / "control.sock").stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
        assert await say(tmp_path, b"hello\n") == b"HELLO\n"
        nursery.cancel_scope.cancel()
    assert not (tmp_path / "control.sock").exists()


@trio_test
async def test_silence_ends_with_its_time(tmp_path):
    async with trio.open_nursery() as nursery:
        await nursery.start(server(tmp_path, request_s=0.01).run)
        assert await say(tmp_path, b"") == b""
        nursery.cancel_scope.cancel()


@trio_test
async def test_length_and_strangers_harm_nothing(tmp_path, monkeypatch):
    async with trio.open_nursery() as nursery:
        await nursery.start(server(tmp_path, request_s=3600.0).run)
        assert len(await say(tmp_path, b"x" * 101)) > 100  # no longer waited for
        with monkeypatch.context() as patched:
            patched.setattr(serving, "peer_uid", lambda _: 12345)
            assert await say(tmp_path, b"") == b""
        assert await say(tmp_path, b"on\n") == b"ON\n"
        nursery.cancel_scope.cancel()


@trio_test
async def test_what_ends_the_service_is_answered_all_the_same(tmp_path):
    said = b""
    async with trio.open_nursery() as nursery:

        async def end(line: bytes) -> bytes:
            service.cancel()
            return b"ended\n"

        service = trio.CancelScope()
        ending = dataclasses.replace(server(tmp_path, is_last_word=True), answer=end)

        async def serve(task_status: trio.TaskStatus[None]) -> None:
            with service:
                await ending.run(task_status=task_status)

        await nursery.start(serve)
        said = await say(tmp_path, b"end\n")
    assert said == b"ended\n"


@trio_test
async def test_without_a_socket_the_service_says_so(tmp_path, monkeypatch, caplog):
    def refuse(folder):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(serving, "bound_socket", refuse)
    await server(tmp_path).run()
    assert "no control socket: Operation not supported; do without" in caplog.text


def test_a_socket_left_by_a_killed_process_is_replaced(tmp_path):
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "control.sock"))
    left.close()
    with bound_socket(tmp_path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "control.sock"))
        assert peer_uid(client) in (os.geteuid(), None)


def test_where_the_system_tells_nothing_nobody_is_refused(monkeypatch):
    monkeypatch.delattr(socket, "SO_PEERCRED", raising=False)
    with socket.socket(socket.AF_UNIX) as alone:
        assert peer_uid(alone) is None


def test_a_folder_that_is_not_there_is_the_systems_error(tmp_path):
    with pytest.raises(OSError, match="No such file"), bound_socket(tmp_path / "none"):
        pass
