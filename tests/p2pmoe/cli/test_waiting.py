"""A spinner for people alone, gone before anything is printed."""

import io
import threading
from collections.abc import Callable

import pytest

from p2pmoe.cli.waiting import Waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Timers:
    """Timers that go off when told to."""

    def __init__(self) -> None:
        self.fire: Callable[[], None] = lambda: None
        self.started = self.cancelled = False

    def __call__(self, after_s: float, call: Callable[[], None]) -> threading.Timer:
        del after_s
        self.fire = call
        return self  # type: ignore[return-value]

    def start(self) -> None:
        self.started = True

    def cancel(self) -> None:
        self.cancelled = True

    def join(self) -> None:
        pass


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_it_is_shown_after_a_moment_and_taken_away() -> None:
    out, timers = Terminal(), Timers()
    with Waiting("the prompt is read", out, timer=timers) as waiting:
        assert timers.started
        assert not out.getvalue()
        timers.fire()
        assert "the prompt is read" in out.getvalue()
        waiting.over()
        shown = out.getvalue()
        assert timers.cancelled
    assert out.getvalue() == shown  # nothing more is written at its end


def test_what_is_over_soon_shows_nothing() -> None:
    out, timers = Terminal(), Timers()
    with Waiting("x", out, timer=timers) as waiting:
        waiting.over()
        waiting.over()
    assert "x" not in out.getvalue()


@pytest.mark.parametrize("is_dumb", [False, True])
def test_no_terminal_no_spinner(is_dumb: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_dumb:
        monkeypatch.setenv("TERM", "dumb")
    out = Terminal() if is_dumb else io.StringIO()
    timers = Timers()
    with Waiting("x", out, timer=timers):
        assert not timers.started
    assert out.getvalue() == ""
