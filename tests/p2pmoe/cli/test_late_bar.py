"""A bar that appears late, on a terminal alone, and goes."""

import io

from p2pmoe.cli.late_bar import LateBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def run(stream: io.StringIO, seconds: float) -> str:
    clock = Clock()
    with LateBar(stream, monotonic=clock) as bar:
        bar.tell("reading", 0.1)
        clock.now += seconds
        bar.tell("writing", 0.5)
    return stream.getvalue()


def test_what_is_over_soon_shows_nothing(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    assert run(Terminal(), 1.9) == ""


def test_what_takes_longer_shows_what_it_does(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    shown = run(Terminal(), 2.0)
    assert "writing" in shown
    assert "reading" not in shown


def test_a_pipe_gets_nothing():
    assert run(io.StringIO(), 60.0) == ""
