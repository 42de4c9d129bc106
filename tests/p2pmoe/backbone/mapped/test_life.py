"""One real child: it answers, and its end is told whatever the way of it."""

import os
import queue
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from p2pmoe.backbone.mapped import life
from p2pmoe.backbone.mapped.life import ChildLife, ChildOrder, how_it_ended
from p2pmoe.backbone.mapped.process_figures import ProcessFigures
from tests.support.backbone_model import POCKET, model_of

WAIT_S = 30


def test_ways_of_ending_have_words():
    assert how_it_ended(0) == "ended with exit code 0"
    assert how_it_ended(-7) == "was ended by SIGBUS"
    assert how_it_ended(-9) == "was ended by SIGKILL"
    assert how_it_ended(-99) == "was ended by signal 99"


class Started:
    """A child, and what it has said."""

    def __init__(self, fds: tuple[int, ...] | None = None) -> None:
        self.said: queue.Queue[object] = queue.Queue()
        self.end: queue.Queue[str] = queue.Queue()
        order = ChildOrder(
            fds=model_of(POCKET).descriptors() if fds is None else fds,
            kernel="numpy",
            n_threads=1,
        )
        self.life = ChildLife(order, self.said.put, lambda _, how: self.end.put(how))

    def is_up(self) -> ProcessFigures:
        figures = self.said.get(timeout=WAIT_S)
        assert isinstance(figures, ProcessFigures)
        return figures


def test_it_lives_until_it_is_closed():
    child = Started()
    assert child.is_up().resident_bytes > 1 << 20
    since = time.monotonic()
    assert not child.life.hangs(since)
    os.kill(child.life.pid, signal.SIGINT)
    os.kill(child.life.pid, signal.SIGTERM)
    child.life.close()
    assert child.end.get(timeout=WAIT_S) == "ended with exit code 0"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGBUS])
def test_a_signal_ends_it_and_is_told(number):
    child = Started()
    child.is_up()
    os.kill(child.life.pid, number)
    assert child.end.get(timeout=WAIT_S) == f"was ended by {number.name}"
    with pytest.raises(OSError):  # noqa: PT011 - whichever the system gives
        child.life.send(bytes(1 << 22))


def test_words_it_does_not_know_end_it():
    child = Started()
    child.is_up()
    child.life.send(b"?")
    assert child.end.get(timeout=WAIT_S) == "ended with exit code 1"


def test_silence_is_a_hang(monkeypatch):
    child = Started()
    child.is_up()
    monkeypatch.setattr(life, "_SILENCE_S", -1.0)
    assert child.life.hangs(0.0)
    child.life.kill()
    assert child.end.get(timeout=WAIT_S) == "was ended by SIGKILL"


_PARENT = """
import sys, time
from pathlib import Path
from p2pmoe.backbone.mapped.life import ChildLife, ChildOrder
fd = open(sys.argv[1], "rb").fileno
order = ChildOrder(fds=(fd(),), kernel="numpy", n_threads=1)
child = ChildLife(order, lambda said: print(child.pid, flush=True), lambda *_: None)
time.sleep(60)
"""


def test_it_does_not_outlive_a_parent_that_is_killed():
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(POCKET)], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert Path(f"/proc/{pid}").exists() or sys.platform != "linux"
    parent.kill()
    parent.communicate()
    end = time.monotonic() + WAIT_S
    while _runs(pid):
        assert time.monotonic() < end
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    """Whether a process runs; a dead one that nobody has waited for does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return (
            not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
        )
    except (ProcessLookupError, FileNotFoundError):
        return False
