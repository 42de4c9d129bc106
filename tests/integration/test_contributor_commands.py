"""A real worker process, steered by commands: paused over a crash, drained, ended."""

import functools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.command_line import Outcome, assert_one_error, run
from tests.support.worker_processes import Process

pytestmark = pytest.mark.slow
RESTED = {"probation", "idle_no_demand"}  # of a newcomer without a backbone
get = functools.partial(httpx.get, trust_env=False, timeout=60)


@pytest.fixture(scope="module")
def invite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("network")
    relay = Process(
        folder,
        "relay",
        *("relay", "--self-signed", "--listen", "127.0.0.1:0"),
        *("--data", str(folder / "net")),
    )
    yield str(relay.report["invite"])
    relay.kill()


class Worker:
    """A worker's folder, its process, and the commands that ask it."""

    def __init__(self, folder: Path, invite: str) -> None:
        self.folder = folder
        self.invite = invite
        self.data = ("--data", str(folder / "data"))
        self.process = self.start()

    def start(self) -> Process:
        preset = ("--preset", "max", "--memory", "64M", "--page", "0")
        return Process(
            self.folder,
            "worker",
            *("contribute", "--invite", self.invite, "--yes", *preset, *self.data),
        )

    def ask(self, *words: str) -> Outcome:
        return run(*words, *self.data)

    def state(self) -> str:
        return str(json.loads(self.ask("status", "--json").out)["state"])


def test_a_worker_is_steered_from_another_terminal(tmp_path: Path, invite: str) -> None:
    worker = Worker(tmp_path, invite)
    try:
        told = worker.ask("status")
        assert (told.code, told.err) == (0, "")
        assert "relay\tconnected to " in told.out
        assert "paused user: by its user" in worker.ask("pause", "1h").out
        worker.process.kill()  # SIGKILL
        gone = worker.ask("status")
        assert gone.code == 1
        assert "not running" in gone.out
        worker.process = worker.start()
        assert worker.state() == "paused_user"
        assert worker.ask("resume").code == 0
        assert worker.state() in RESTED
        assert worker.ask("limits", "set", "daily-mb=700").code == 0
        assert "daily_mb = 700" in (tmp_path / "data" / "limits.toml").read_text()
        assert_one_error(worker.ask("limits", "set", "cpus=0"), "cpus cannot be '0'")
        page_is_the_same(worker)
        assert worker.ask("drain").code == 0
        assert worker.process.process.wait(60) == 0
        assert_one_error(worker.ask("drain"), "no worker runs on")
    finally:
        worker.process.kill()


def page_is_the_same(worker: Worker) -> None:
    """What the page asks for tells what `p2pmoe status --json` does."""
    url = urlsplit(worker.ask("status", "--page").out.strip())
    address = f"http://{url.netloc}"
    assert get(f"{address}/state").status_code == 401
    headers = {"Authorization": f"Bearer {url.fragment}"}
    paged = get(f"{address}/state", headers=headers).json()
    asked = json.loads(worker.ask("status", "--json").out)
    lines = paged.pop("lines")
    assert paged.keys() == asked.keys()
    assert paged["worker"] == asked["worker"] == worker.process.report["peer_id"]
    assert [name for name, _ in lines][:2] == ["state", "relay"]
    assert b"<script>" in get(address).content


def test_a_second_worker_on_the_folder_disturbs_nothing_and_stop_is_at_once(
    tmp_path: Path, invite: str
) -> None:
    worker = Worker(tmp_path, invite)
    try:
        words = ("contribute", "--invite", invite, "--yes", *worker.data)
        second = run(*words)
        assert second.code == 2
        assert "in use by another process" in second.error
        assert worker.state() in RESTED  # its socket is still its own
        stopped = worker.ask("stop")
        assert (stopped.code, stopped.err) == (0, "stopped\n")
        assert worker.process.process.wait(60) == 0
        assert not (tmp_path / "data" / "control.sock").exists()
        worker.process = worker.start()
        assert worker.process.stop(signal.SIGINT) == 130
    finally:
        worker.process.kill()
