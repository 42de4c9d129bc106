"""When the market has to do what: one place for every planned moment.

Planning twice keeps the earlier moment, so that a stream of events never postpones the
work for ever. `take_...` returns what is due and strikes it out. Times are monotonic
seconds. Pure.
"""

from typing import TypeVar

from p2pmoe.market.lease import Deployment
from relay.keys import PeerId

__all__ = ["Timetable"]

_ASSIGN_DELAY_S = 0.25  # those who join within it share the work
_PLACE_DELAY_S = 0.1
_MOVE_PERIOD_S = 5.0

_Key = TypeVar("_Key")


class Timetable:
    """Planned assignment, moves, placements, and patience with silent peers."""

    def __init__(self) -> None:
        self.suspects: dict[PeerId, float] = {}
        self._assign_at: float | None = None
        self._move_at: float | None = None
        self._place_at: dict[Deployment, float] = {}
        self._silent_at: dict[Deployment, float] = {}

    def assign_soon(self, now: float) -> None:
        """Plan an assignment."""
        if self._assign_at is None:
            self._assign_at = now + _ASSIGN_DELAY_S

    def move_soon(self, now: float) -> None:
        """Plan a look at moves."""
        if self._move_at is None:
            self._move_at = now + _MOVE_PERIOD_S

    def place_soon(self, deployment: Deployment, now: float) -> None:
        """Plan a placement of this deployment."""
        self._place_at.setdefault(deployment, now + _PLACE_DELAY_S)

    def placed(self, deployment: Deployment) -> None:
        """Strike out what was planned: the placement goes now."""
        self._place_at.pop(deployment, None)

    def silent_at(self, deployment: Deployment, moment: float) -> None:
        """Plan to look whether the deployment's backbone has been silent too long."""
        self._silent_at[deployment] = moment

    def take_assignment(self, now: float) -> bool:
        """Return whether an assignment is due."""
        if self._assign_at is None or now < self._assign_at:
            return False
        self._assign_at = None
        return True

    def take_moves(self, now: float) -> bool:
        """Return whether a look at moves is due."""
        if self._move_at is None or now < self._move_at:
            return False
        self._move_at = None
        return True

    def take_placements(self, now: float) -> list[Deployment]:
        """Return the deployments whose placement is due."""
        return _take(self._place_at, now)

    def take_suspects(self, now: float) -> list[PeerId]:
        """Return the peers that have not shown up again in time."""
        return _take(self.suspects, now)

    def take_silent(self, now: float) -> list[Deployment]:
        """Return the deployments to look at."""
        return _take(self._silent_at, now)

    def next_due(self) -> float | None:
        """Return the earliest planned moment."""
        moments = [
            *self._place_at.values(),
            *self._silent_at.values(),
            *self.suspects.values(),
        ]
        moments += [t for t in (self._assign_at, self._move_at) if t is not None]
        return min(moments, default=None)


def _take(planned: dict[_Key, float], now: float) -> list[_Key]:
    due = [each for each, moment in planned.items() if moment <= now]
    for each in due:
        del planned[each]
    return due
