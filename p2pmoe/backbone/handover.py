"""Calls from decode threads, made on the trio thread: in order, with little delay.

trio's own way (`run_sync_soon`) wakes its loop by a socket and two of its tasks; here
one task waits for a counter in the kernel (eventfd), which halves the time until the
call is made. Where there is no eventfd, and before `run` and after it, trio's own way
is taken, so that no call is lost and none overtakes another.
"""

import os
import threading
from collections import deque
from collections.abc import Callable

import trio

__all__ = ["Handover"]


class Handover:
    """The way from any thread to the trio thread that made this."""

    def __init__(self) -> None:
        """Begin; until `run` runs, calls take trio's own way."""
        self._token = trio.lowlevel.current_trio_token()
        self._lock = threading.Lock()
        self._calls: deque[Callable[[], None]] = deque()
        self._counter: int | None = None

    def call(self, function: Callable[[], None]) -> None:
        """Have `function` called on the trio thread, soon; returns at once.

        Raises:
            trio.RunFinishedError: the trio thread has ended.
        """
        with self._lock:
            if self._counter is None:
                self._token.run_sync_soon(function)
                return
            self._calls.append(function)
            os.eventfd_write(self._counter, 1)

    async def run(self) -> None:
        """Make calls until cancelled."""
        if not hasattr(os, "eventfd"):
            return
        counter = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        with self._lock:
            self._counter = counter
        try:
            await self._wait_earlier_calls()
            while True:
                await trio.lowlevel.wait_readable(counter)
                os.eventfd_read(counter)
                self._make_calls()
        finally:
            with self._lock:
                self._counter = None
            os.close(counter)
            self._make_calls()

    async def _wait_earlier_calls(self) -> None:
        """Wait until those are made that took trio's own way, which keeps order."""
        made = trio.Event()
        self._token.run_sync_soon(made.set)
        await made.wait()

    def _make_calls(self) -> None:
        while self._calls:
            self._calls.popleft()()
