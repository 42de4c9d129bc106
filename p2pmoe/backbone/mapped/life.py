"""One child from its start to its end, as its parent sees it.

Started by its own command line, never by a fork of this process, which has threads. It
inherits its end of a socket pair and the model's open descriptors and nothing else, so
it computes on the very files that were checked, whatever their names mean by now; it
runs the code that this process runs. A thread reads what it says until it ends.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from p2pmoe.backbone.mapped.frames import read_frame, send_frame
from p2pmoe.backbone.mapped.messages import (
    Kind,
    MessageMalformed,
    Refused,
    Values,
    parse_beat,
    parse_refused,
    parse_values,
)
from p2pmoe.backbone.mapped.process_figures import ProcessFigures

__all__ = ["ChildLife", "ChildOrder", "Said", "how_it_ended"]

Said = Values | Refused | ProcessFigures

_MODULE = "p2pmoe.backbone.mapped.child"
_CODE = str(Path(__file__).resolve().parents[3])
_END_S = 2.0
_START_S, _SILENCE_S = 30.0, 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildOrder:
    """What a child is started with: the open files, the kernel, threads for a call."""

    fds: Sequence[int]
    kernel: str
    n_threads: int


class ChildLife:
    """A running child; all methods from any thread."""

    def __init__(
        self,
        order: ChildOrder,
        heard: Callable[[Said], None],
        ended: Callable[["ChildLife", str], None],
    ) -> None:
        """Start it; OSError where that cannot be.

        `heard` is called with all it says, and `ended` once, at its end, with the way
        of it; both from a thread of its own. It ends with the thread that started it.
        """
        self._heard, self._ended = heard, ended
        self._link, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _started(order, theirs)
            except OSError:
                self._link.close()
                raise
        self._heard_at = time.monotonic()
        self._has_spoken = False
        self.has_ended = False  # set before `ended` is called
        self._reader = threading.Thread(
            target=self._read, name="mapped reader", daemon=True
        )
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def send(self, body: bytes) -> None:
        """Give it WORK; waits while it is behind.

        Raises:
            OSError: it is gone.
            MessageMalformed: the work is larger than a message may be.
        """
        send_frame(self._link, Kind.WORK, body)

    def hangs(self, since: float) -> bool:
        """Whether it has been silent too long, with work since `since` (monotonic)."""
        patience_s = _SILENCE_S if self._has_spoken else _START_S
        return time.monotonic() - max(self._heard_at, since) > patience_s

    def kill(self) -> None:
        """End it now; `ended` follows."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """Let it end, and wait until it has."""
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        self._reader.join(2 * _END_S)

    def _read(self) -> None:
        with contextlib.suppress(OSError, MessageMalformed):
            while (frame := read_frame(self._link)) is not None:
                self._heard_at, self._has_spoken = time.monotonic(), True
                self._heard(_parsed(*frame))
        self._link.close()
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self.has_ended = True
        self._ended(self, how_it_ended(code))


def _parsed(kind: Kind, body: memoryview) -> Said:
    if kind is Kind.VALUES:
        return parse_values(body)
    if kind is Kind.REFUSED:
        return parse_refused(body)
    if kind is Kind.BEAT:
        return parse_beat(body)
    raise MessageMalformed(f"{kind.name} is not for the parent")


def _started(order: ChildOrder, theirs: socket.socket) -> subprocess.Popen[bytes]:
    words = [str(theirs.fileno()), order.kernel, str(order.n_threads)]
    words += map(str, order.fds)
    # -P: what lies in the current folder is not imported in place of this code.
    return subprocess.Popen(  # noqa: S603 - our own module and numbers
        [sys.executable, "-P", "-m", _MODULE, *words],
        pass_fds=[theirs.fileno(), *order.fds],
        env={**os.environ, "PYTHONPATH": _CODE},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def how_it_ended(code: int) -> str:
    """Say in words how a process ended, from its return code."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"
