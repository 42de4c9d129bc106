"""When to try the relay again: pure policy, no clock and no sleeping in here.

At once the first time; then full jitter: uniform between 0 and a ceiling that doubles
from 0.5 s to 30 s (the jitter is taken after the cap, so that a crowd that lost one
relay spreads over the whole 30 s). A wait that the relay asked for (RESTARTING, DENY)
is a floor, up to five minutes: no relay sends a peer away for days. A connection that
lasted starts the row anew.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Backoff"]

_MAX_ASKED_S: Final = 300.0


@dataclass(slots=True, kw_only=True)
class Backoff:
    """The delays of one row of attempts. `random` returns a float in [0, 1)."""

    random: Callable[[], float]
    first_s: float = 0.5
    max_s: float = 30.0
    _n_failed: int = field(default=0, init=False)

    def next_delay_s(self, *, asked_s: float = 0.0) -> float:
        """Return how long to wait before the next attempt, at least `asked_s`."""
        asked_s = min(max(0.0, asked_s), _MAX_ASKED_S)
        n = self._n_failed
        self._n_failed += 1
        if n == 0:
            return asked_s
        # The exponent is bounded: 2.0 ** 2000 would overflow after a long outage.
        ceiling = min(self.max_s, self.first_s * 2.0 ** min(n - 1, 32))
        return asked_s + self.random() * ceiling

    def reset(self) -> None:
        """Start anew: call it once a connection is up."""
        self._n_failed = 0
