"""`p2pmoe models check` as a person runs it: real workers, real signals, bad input."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.command_line import PROGRAM, assert_one_error, run, run_all
from tests.support.mini_m3 import write_mini_m3
from tests.support.references import N_VOCAB, write_reference
from tests.support.shared import shared_path
from tests.support.tiny_folders import TINY_FOLDERS

_WITHIN_S = 120.0
_SHARE_DONE = re.compile(r"[a-z0-9, ]+: \d+%")
_SLOW = [name for name in TINY_FOLDERS if name != "minimax_m3"]


def check(folder: str, model: str, *options: str) -> dict:
    """Run the check of a tiny folder; return its report."""
    done = run(
        *("models", "check", str(shared_path(f"models/tiny/{folder}/{model}"))),
        *("--reference", str(shared_path(f"models/tiny/{folder}/reference.npz"))),
        *("--json", *options),
    )
    assert done.code == 0, done.err
    # Nothing, but every ten seconds how far it is, where it takes so long.
    said = [line for line in done.err.splitlines() if not _SHARE_DONE.fullmatch(line)]
    assert said == []
    return dict(json.loads(done.out))


def assert_scattered(report: dict, n_workers: int) -> None:
    calls = report["calls_by_worker"]
    assert list(calls) == [f"worker-{n + 1}" for n in range(n_workers)]
    assert all(n > 0 for n in calls.values()), calls
    assert report["n_calls_here"] == 0
    assert report["holds"] is True
    assert report["max_abs_error"] <= 2e-4
    assert report["n_greedy_equal"] == report["n_greedy"] == 24


def test_two_worker_processes_compute_every_expert():
    assert_scattered(check("minimax_m3", "model-f32.gguf", "--workers", "2"), 2)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["model-f32.gguf", ""], ids=["gguf", "safetensors"])
@pytest.mark.parametrize("folder", _SLOW)
def test_each_architecture_over_two_worker_processes(folder, model):
    assert_scattered(check(folder, model, "--workers", "2"), 2)


@pytest.mark.slow
def test_more_workers_and_coded_results():
    report = check("minimax_m3", "", "--workers", "3", "--profile", "r16")
    assert_scattered(report, 3)
    alone = check("minimax_m3", "", "--profile", "r16")
    assert report["max_abs_error"] == alone["max_abs_error"] > 1e-5


class Scattered:
    """A long scattered check that is being run; its folder is `temporary`."""

    def __init__(self, tmp_path: Path) -> None:
        """Start it on a model whose check takes many seconds."""
        self.temporary = tmp_path / "tmp"
        self.temporary.mkdir()
        model = write_mini_m3(tmp_path / "mini.gguf")
        reference = write_reference(
            tmp_path / "r.npz", greedy=np.zeros(110, np.int32), prompt=[1] * 10
        )
        # Whoever runs the tests may ignore a closed terminal (nohup); it must not.
        outer = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.process = subprocess.Popen(
            [
                *(*PROGRAM, "models", "check", str(model)),
                *("--reference", str(reference), "--workers", "2", "--json"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(self.temporary)},
            text=True,
            start_new_session=True,
        )
        signal.signal(signal.SIGHUP, outer)

    def wait_for(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds while the check runs."""
        deadline = time.monotonic() + _WITHIN_S
        while not holds():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def children(self) -> dict[int, str]:
        """Return the commands of the network's processes by process id."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        if not tasks.exists():
            pytest.skip("needs /proc")
        pids: list[str] = []
        for task in tasks.iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                pids += (task / "children").read_text().split()  # or it has ended
        return {int(pid): _command_of(int(pid)) for pid in pids}

    def has_joined(self, name: str) -> bool:
        """Say whether a worker has told that it is there."""
        # Not rglob: it fails when a folder goes while it looks (as one of a key does).
        looked_for = f"{name}.ready.json"
        return any(looked_for in files for _, _, files in os.walk(self.temporary))

    def end(self) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr."""
        out, err = self.process.communicate(timeout=_WITHIN_S)
        return self.process.returncode, out, err


def _command_of(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return words[words.index(b"p2pmoe") + 1].decode()


@pytest.fixture
def running(tmp_path):
    """Return a scattered check under way, ended with the test."""
    started = Scattered(tmp_path)
    yield started
    if started.process.poll() is None:
        started.process.terminate()
        started.end()


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_leaves_nothing_behind(running, number):
    running.wait_for(lambda: running.has_joined("worker-1"))
    children = running.children()
    assert sorted(children.values()) == ["contribute", "contribute", "relay"]
    running.process.send_signal(number)
    code, out, err = running.end()
    assert (code, out) == (130, "")
    assert err.splitlines()[-1:] == ["interrupted"]
    assert not any(map(is_there, children))
    assert list(running.temporary.iterdir()) == []


def test_a_relay_that_dies_is_one_line(running):
    running.wait_for(lambda: all(map(running.has_joined, ("worker-1", "worker-2"))))
    children = running.children()
    (relay,) = (pid for pid, command in children.items() if command == "relay")
    os.kill(relay, signal.SIGKILL)
    code, out, err = running.end()
    assert (code, out) == (1, "")
    assert err.splitlines()[-1:] == ["error: relay was ended by signal 9"]
    assert not any(map(is_there, children))
    assert list(running.temporary.iterdir()) == []


def test_bad_references_and_models_are_one_line_each(tmp_path):
    model = str(write_mini_m3(tmp_path / "mini.gguf"))
    good = str(write_reference(tmp_path / "good.npz"))
    text = tmp_path / "text.npz"
    text.write_text("once upon a time " * 10)
    wide = np.zeros((3, N_VOCAB + 1), np.float32)
    nan = np.full((3, N_VOCAB), np.nan, np.float32)
    cases = {
        "text": (model, str(text)),
        "none": (model, str(tmp_path / "none.npz")),
        "folder": (model, str(tmp_path)),
        "wide": (model, str(write_reference(tmp_path / "wide.npz", logits=wide))),
        "nan": (model, str(write_reference(tmp_path / "nan.npz", logits=nan))),
        "model": (good, good),
        "profile": (model, good, "--profile", "r64"),
        "workers": (model, good, "--workers", "-1"),
    }
    words = {
        "text": "is no .npz file",
        "none": "no such file",
        "folder": "is no regular file",
        "wide": "the model has 96 tokens",
        "nan": "not finite",
        "model": "good.npz",
        "profile": "unknown --profile 'r64'",
        "workers": "--workers",
    }
    commands = {
        name: ("models", "check", path, "--reference", reference, *options)
        for name, (path, reference, *options) in cases.items()
    }
    for name, outcome in run_all(commands).items():
        assert_one_error(outcome, words[name])
