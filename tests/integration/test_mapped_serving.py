"""`serve --disk mmap` as a process: a file cut short, a child killed, no orphan.

The child that maps the model is the part that may die (faults B03, B15): its parent
keeps its process id, says what was lost, goes on, and never starts children in a loop.
"""

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from p2pmoe.backbone.mapped.restarts import PAUSE_S
from tests.support.command_line import Running, assert_one_error, run
from tests.support.shared import shared_path

POCKET = Path(__file__).resolve().parents[2] / "p2pmoe/models/pocket-q4_0.gguf"
OPTIONS = ("--context", "256", "--ram", "24M", "--disk", "mmap")
WITHIN_S = 60.0
LOST_WITHIN_S = 5.0
MAX_WAKEUPS = 100  # of an idle service in a second
BODY = {"prompt": "once upon a time", "max_tokens": 24, "temperature": 0}


class Backbone:
    """A `serve` that maps a model of its own, without a network."""

    def __init__(self, folder: Path) -> None:
        self.began = time.monotonic()
        self.model = folder / "model.gguf"
        shutil.copyfile(POCKET, self.model)
        self.process = Running(
            folder,
            *("serve", str(self.model), "--listen", "127.0.0.1:0"),
            *("--data", str(folder / "data"), *OPTIONS),
        )
        url = "http://{}:{}".format(*self.process.report["listen"])
        self.client = httpx.Client(base_url=url, trust_env=False, timeout=60)
        self.until(lambda: self.client.get("/readyz").status_code == 200)

    def ask(self, **more: object) -> httpx.Response:
        return self.client.post("/v1/completions", json={**BODY, **more})

    def tokens(self, **more: object) -> list[int]:
        answer = self.ask(**more)
        assert answer.status_code == 200, answer.text
        found: list[int] = answer.json()["p2pmoe"]["tokens"]
        return found

    def sample(self, name: str) -> int:
        page = self.client.get("/metrics").text.splitlines()
        return int(float(next(x for x in page if x.startswith(f"{name} ")).split()[1]))

    def of_threads(self, name: str) -> list[str]:
        """Return what a file says for each of the process's threads."""
        found = []
        for task in Path(f"/proc/{self.process.process.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found.append((task / name).read_text())  # unless it has ended
        return found

    def children(self) -> list[int]:
        words = " ".join(self.of_threads("children")).split()
        return [int(word) for word in words]

    def wakeups(self) -> int:
        """Return how often threads of the process have waited and gone on so far."""
        lines = [
            line
            for text in self.of_threads("status")
            for line in text.splitlines()
            if line.startswith("voluntary_ctxt_switches")
        ]
        return sum(int(line.split()[1]) for line in lines)

    def wakeups_s(self, seconds: float) -> float:
        """Return how often that is in a second, seen for so many or more."""
        before, began = self.wakeups(), time.monotonic()
        time.sleep(seconds)
        n_wakeups = self.wakeups() - before
        return n_wakeups / (time.monotonic() - began)

    def log(self) -> str:
        return self.process.log.read_text()

    def until(self, holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        end = time.monotonic() + within_s
        while not holds():
            assert self.process.is_running, self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.01)


@pytest.fixture
def backbone(tmp_path: Path) -> Iterator[Backbone]:
    if not Path("/proc/self/task").exists():
        pytest.skip("needs /proc")
    backbone = Backbone(tmp_path)
    yield backbone
    backbone.client.close()
    backbone.process.kill()


def test_b03_a_mapped_file_cut_short_during_requests(backbone: Backbone) -> None:
    pid = backbone.process.process.pid
    backbone.tokens()
    (child,) = backbone.children()
    before: list[int] = []  # what requests that began before the cut came to
    after: list[httpx.Response] = []
    is_cut = threading.Event()

    def ask() -> None:
        while not is_cut.is_set():
            before.append(backbone.ask(max_tokens=48).status_code)
        after.extend(backbone.ask(max_tokens=48) for _ in range(5))

    asking = threading.Thread(target=ask)
    calls = backbone.sample("p2pmoe_disk_cache_hits_total")
    asking.start()
    backbone.until(lambda: backbone.sample("p2pmoe_disk_cache_hits_total") > calls)
    os.truncate(backbone.model, 4096)
    is_cut.set()
    backbone.until(
        lambda: f"shard lost: {backbone.model}" in backbone.log(), LOST_WITHIN_S
    )
    asking.join(WITHIN_S)
    assert set(before) <= {200, 503}
    assert [one.status_code for one in after] == [503] * 5
    error = after[-1].json()["error"]
    assert error["code"] == "upstream_lost"
    assert backbone.process.process.pid == pid
    assert backbone.client.get("/livez").status_code == 200
    assert backbone.sample("p2pmoe_mapped_starts_total") == 1
    assert backbone.children() in ([], [child])
    assert "Traceback" not in backbone.log()
    assert backbone.process.stop() == 0


def test_b03_a_file_cut_short_before_the_start_is_refused(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    size = POCKET.stat().st_size
    model.write_bytes(POCKET.read_bytes()[:-4097])
    words = ("serve", str(model), "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert_one_error(
        run(*words, *OPTIONS), f"needs {size} bytes, has {size - 4097}", str(model)
    )


def test_b15_a_child_killed_in_mid_expert(backbone: Backbone) -> None:
    """The answer is whole all the same, and there is no loop of restarts."""
    right = backbone.tokens(max_tokens=96)
    (child,) = backbone.children()
    answers: list[list[int]] = []
    asking = threading.Thread(
        target=lambda: answers.append(backbone.tokens(max_tokens=96))
    )
    os.kill(child, signal.SIGSTOP)  # with the call in its hands, for certain
    asking.start()
    backbone.until(lambda: backbone.sample("p2pmoe_requests_active") == 1)
    os.kill(child, signal.SIGKILL)
    backbone.until(lambda: "was ended by SIGKILL" in backbone.log(), 10)
    asking.join(WITHIN_S)
    assert answers == [right]
    for _ in range(5):
        assert backbone.tokens(max_tokens=8) == right[:8]
    left, is_up = backbone.children(), backbone.sample("p2pmoe_mapped_up")
    n_starts = backbone.sample("p2pmoe_mapped_starts_total")
    assert n_starts <= 1 + (time.monotonic() - backbone.began) / PAUSE_S
    if n_starts == 1:  # a slow machine needs long enough for another
        assert (left, is_up) == ([], 0)
    assert backbone.wakeups_s(1.0) < MAX_WAKEUPS


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_killing_the_parent_leaves_no_child(backbone: Backbone) -> None:
    backbone.tokens()
    (child,) = backbone.children()
    backbone.process.process.kill()
    end = time.monotonic() + WITHIN_S
    while is_alive(child):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_it_ends_with_its_service(backbone: Backbone) -> None:
    backbone.tokens()
    (child,) = backbone.children()
    assert backbone.process.stop() == 0
    assert not Path(f"/proc/{child}").exists()


def test_a_folder_of_safetensors_cannot_be_mapped(tmp_path: Path) -> None:
    folder = shared_path("models/tiny/mixtral/model.safetensors")
    words = ("serve", str(folder), "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    refused = run(*words, "--disk", "mmap", "--ram", "64M")
    assert_one_error(refused, "--disk mmap needs a GGUF file", "convert")
