"""A `serve` of one's own: started, waited for, ended; real processes."""

import json
import sys
from pathlib import Path

import pytest
import trio

from p2pmoe.client.completions import ApiError
from p2pmoe.evaluate import serving as module
from p2pmoe.evaluate.asking import open_api
from p2pmoe.evaluate.serving import ServeOptions, serving, wait_until_ready
from p2pmoe.local_network import processes
from p2pmoe.local_network.processes import ChildFailed
from tests.support.trio_test import trio_test

SERVE = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    n_asked = 0
    def do_GET(self):
        Handler.n_asked += 1
        self.send_response(200 if Handler.n_asked > 2 else 503)
        self.end_headers()
        self.wfile.write(b'{"phase": "warming", "detail": ""}')
    def log_message(self, *args):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
path = sys.argv[sys.argv.index("--ready-file") + 1]
report = {"listen": list(server.server_address), "arguments": sys.argv[1:]}
open(path + ".new", "w").write(json.dumps(report))
import os
os.replace(path + ".new", path)
server.serve_forever()
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch):
    def install(code: str) -> None:
        script = tmp_path / "child.py"
        script.write_text(code, encoding="utf-8")
        monkeypatch.setattr(processes, "PROGRAM", (sys.executable, str(script)))

    monkeypatch.setattr(module, "_POLL_S", 0.01)
    return install


@trio_test
async def test_it_is_yielded_when_it_is_ready_and_ended_afterwards(tmp_path, program):
    program(SERVE)
    told: list[str] = []
    wanted = ServeOptions(model="pocket", options=["--ram", "8G"])
    async with serving(tmp_path, wanted, lambda label, _: told.append(label)) as api:
        assert await api.ready() == ""
    assert told == ["warming", "warming"]
    report = json.loads((tmp_path / "serve.ready.json").read_text())
    arguments = report["arguments"]
    assert arguments[:4] == ["serve", "pocket", "--ram", "8G"]
    assert "--no-require-evaluation" in arguments
    assert_is_a_key(Path(arguments[arguments.index("--api-key-file") + 1]))
    assert arguments[arguments.index("--data") + 1] == str(tmp_path / "data")
    _, port = report["listen"]
    async with open_api(f"127.0.0.1:{port}") as gone:
        with pytest.raises(ApiError, match="cannot be reached"):
            await wait_until_ready(gone, lambda *_: None)


@trio_test
async def test_one_that_ends_is_told_by_its_last_line(tmp_path, program):
    program("import sys; sys.exit('error: the model is refused')")
    with pytest.raises(ChildFailed, match="serve ended early: error: the model"):
        async with serving(tmp_path, ServeOptions(model="m"), lambda *_: None):
            pass


def assert_is_a_key(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_text().strip()) == 32


class NeverReady:
    async def ready(self) -> str:
        return "loading"


@trio_test(autojump=True)
async def test_patience_ends():
    with pytest.raises(ChildFailed, match="not ready after 60 s: loading"):
        await wait_until_ready(NeverReady(), lambda *_: None, within_s=60.0)


class Lost:
    async def ready(self) -> str:
        raise ApiError("the backbone cannot be reached, or was lost")


class Ended:
    is_running = False

    def ending(self) -> str:
        return "serve was ended by signal 9"


@trio_test
async def test_a_child_that_died_is_not_waited_for():
    for api in (NeverReady(), Lost()):
        with trio.fail_after(5), pytest.raises(ChildFailed, match="by signal 9"):
            await wait_until_ready(api, lambda *_: None, Ended())
