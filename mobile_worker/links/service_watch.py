"""Whether a service of the network, such as the market, can be reached. No I/O.

The market answers little, so silence says nothing. It is away from the moment that
something said to it did not arrive, or that it was lost, until it says something.
"""

from mobile_worker.links.events import UndeliveredReason

__all__ = ["ABSENT", "ServiceWatch"]

# What tells that the peer is not there at all.
ABSENT = frozenset({UndeliveredReason.NOT_HERE, UndeliveredReason.LOST})


class ServiceWatch:
    """Since when a service is away; times are monotonic seconds."""

    def __init__(self) -> None:
        """Believe it to be there."""
        self._away_since: float | None = None

    def heard(self) -> None:
        """It said something."""
        self._away_since = None

    def missed(self, now: float) -> None:
        """It was lost, or something did not reach it."""
        if self._away_since is None:
            self._away_since = now

    def away_s(self, now: float) -> float:
        """Return for how long it has been away; 0 if it is there."""
        return 0.0 if self._away_since is None else now - self._away_since

    @property
    def is_away(self) -> bool:
        """Whether it is away."""
        return self._away_since is not None
