"""Socket and page beside a worker; neither is a reason not to work."""

import functools
import json
from urllib.parse import urlsplit

import trio
import trio.testing

from p2pmoe.contributor import beside as module
from p2pmoe.contributor.beside import Beside
from p2pmoe.contributor.client import ask_worker
from tests.support.trio_test import trio_test
from tests.support.worker_controls import worker_controls


@trio_test
async def test_both_are_there_and_go(tmp_path):
    controls, _, _ = worker_controls()
    told, said = trio.open_memory_channel[str](1)
    beside = Beside(folder=tmp_path, page_port=0, tell=told.send_nowait)
    ask = functools.partial(trio.to_thread.run_sync, ask_worker, tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside.run, controls)
        url = await said.receive()
        assert (await ask("page"))["url"] == url
        parts = urlsplit(url)
        for path, key in (("/state", "state"), ("/earnings", "days")):
            asked = (
                f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
                f"Authorization: Bearer {parts.fragment}\r\n\r\n"
            )
            got = b""
            async with await trio.open_tcp_stream("127.0.0.1", parts.port) as stream:
                await stream.send_all(asked.encode())
                async for part in stream:
                    got += bytes(part)
            assert key in json.loads(got.partition(b"\r\n\r\n")[2])
        nursery.cancel_scope.cancel()
    assert not (tmp_path / "control.sock").exists()


@trio_test
async def test_without_a_page_the_worker_is_asked_all_the_same(
    tmp_path, monkeypatch, caplog
):
    def refuse(path, port):
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(module, "open_page", refuse)
    controls, _, _ = worker_controls()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Beside(folder=tmp_path, page_port=0).run, controls)
        await trio.testing.wait_all_tasks_blocked()
        told = await trio.to_thread.run_sync(ask_worker, tmp_path, "status")
        assert told["state"] == "ready"
        nursery.cancel_scope.cancel()
    assert "no local page: Permission denied" in caplog.text
