"""A bar that appears late, on a terminal alone, and goes."""

import io
from collections.abc import Callable

from p2pmoe.cli.late_bar import LateBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Hourglass:
    """A timer that runs out when it is told to."""

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        assert seconds == 2.0
        self.run_out = function
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def cancel(self) -> None:
        self.calls.append("cancel")

    def join(self) -> None:
        self.calls.append("join")


def run(stream: io.StringIO, *, is_over: bool) -> str:
    glasses: list[Hourglass] = []

    def timer(seconds: float, function: Callable[[], None]) -> Hourglass:
        glasses.append(Hourglass(seconds, function))
        return glasses[0]

    with LateBar(stream, timer=timer) as bar:
        bar.tell("reading", 0.1)
        bar.tell("writing", 0.5)
        if is_over:
            glasses[0].run_out()
    assert glasses[0].calls == ["start", "cancel", "join"]
    return stream.getvalue()


def test_what_is_over_soon_shows_nothing(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    assert run(Terminal(), is_over=False) == ""


def test_what_takes_longer_shows_what_it_does(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    shown = run(Terminal(), is_over=True)
    assert "writing" in shown
    assert "reading" not in shown


def test_a_pipe_gets_nothing():
    assert run(io.StringIO(), is_over=True) == ""


def test_a_real_timer_is_not_waited_for():
    with LateBar(io.StringIO()) as bar:
        bar.tell("reading", 0.1)


def test_a_pipe_gets_a_line_now_and_then():
    stream = io.StringIO()
    now = iter([0.0, 9.0, 10.0, 15.0, 20.0])
    with LateBar(stream, monotonic=lambda: next(now)) as bar:
        for tenths in range(1, 5):
            bar.tell("reading", tenths / 10)
    assert stream.getvalue() == "reading: 20%\nreading: 40%\n"
