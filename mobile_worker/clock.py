"""The one place where wall time is read; everyone else is given a `Clock`.

`monotonic()` measures durations and is what deadlines are made of; `wall_us()` is
what documents carry. Neither is ever taken from another host.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

__all__ = ["Clock", "SystemClock"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Where a component gets its time from."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start; never goes back."""
        ...

    def wall_us(self) -> int:
        """Return microseconds since 1970 UTC, by this host's clock."""
        ...


class SystemClock:
    """The clocks of this host."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start; never goes back."""
        return time.monotonic()

    def wall_us(self) -> int:
        """Return microseconds since 1970 UTC, by this host's clock."""
        return (datetime.now(UTC) - _EPOCH) // _MICROSECOND
