"""Notice that this host slept: its wall clock ran on while its monotonic clock stood.

Timers stop during a suspend (faults B28), so a wait or a ping time-out of before says
nothing afterwards, and connections of before are most likely dead. A wall clock that
somebody sets is taken for a suspend too; that costs one reconnection.
"""

from collections.abc import Callable
from typing import Final

import trio

from relay.defaults import SUSPEND_JUMP_S

__all__ = ["SuspendWatch", "sleep_awake"]

_TICK_S: Final = 2.0  # so long after waking it is noticed at the latest


class SuspendWatch:
    """Compares two clocks from one look to the next. No I/O, no sleeping."""

    __slots__ = ("_gap_s", "_wall_us")

    def __init__(self, wall_us: Callable[[], int], now: float) -> None:
        self._wall_us = wall_us
        self._gap_s = wall_us() / 1e6 - now

    def slept(self, now: float) -> bool:
        """Tell whether the clocks went apart by over 30 s since the last that did."""
        gap_s = self._wall_us() / 1e6 - now
        if abs(gap_s - self._gap_s) <= SUSPEND_JUMP_S:
            return False
        self._gap_s = gap_s
        return True


async def sleep_awake(seconds: float, wall_us: Callable[[], int]) -> bool:
    """Sleep; return False at once when it turns out that the host was suspended.

    For waits between attempts: after a suspend the next attempt is due at once, and the
    row of delays (`Backoff.reset`) begins anew.
    """
    watch = SuspendWatch(wall_us, trio.current_time())
    deadline = trio.current_time() + seconds
    while True:
        left = deadline - trio.current_time()
        await trio.sleep(max(0.0, min(left, _TICK_S)))
        now = trio.current_time()
        if watch.slept(now):
            return False
        if now >= deadline:
            return True
