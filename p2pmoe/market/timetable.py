"""When the market has to do what: one place for every planned moment.

Planning twice keeps the earlier moment, so that a stream of events never postpones the
work for ever. `take_...` returns what is due and strikes it out. Times are monotonic
seconds. Pure.
"""

from collections.abc import Iterable
from typing import TypeVar

from p2pmoe.market.lease import Deployment, LeaseTable
from relay.keys import PeerId

__all__ = ["Timetable"]

_ASSIGN_DELAY_S = 0.25  # those who join within it share the work
_PLACE_DELAY_S = 0.1
_MOVE_PERIOD_S = 5.0
# A placement names every holder: with more than these, losses share one.
_MAX_HOLDERS_AT_ONCE = 100
_HOLDERS_A_SECOND = 5_000
_MAX_GAP_S = 2.0
_MAX_PLACED = 1_024

_Key = TypeVar("_Key")


class Timetable:
    """Planned assignment, moves, placements, and patience with silent peers."""

    def __init__(self) -> None:
        self.suspects: dict[PeerId, float] = {}
        self._assign_at: float | None = None
        self._move_at: float | None = None
        self._place_at: dict[Deployment, float] = {}
        self._placed_at: dict[Deployment, float] = {}
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

    def after_loss(
        self, deployments: Iterable[Deployment], now: float, leases: LeaseTable
    ) -> list[Deployment]:
        """Return the deployments to be placed at once; plan the others soon.

        Those with few holders are placed at each loss. The more holders there are, the
        longer losses wait for each other: the whole picture must stay worth its making.
        """
        due = []
        for deployment in dict.fromkeys(deployments):
            above = leases.n_holders(deployment) - _MAX_HOLDERS_AT_ONCE
            gap_s = min(max(0, above) / _HOLDERS_A_SECOND, _MAX_GAP_S)
            moment = self._placed_at.get(deployment, float("-inf")) + gap_s
            if now >= moment:
                self._note_placed(deployment, now)
                due.append(deployment)
            elif moment < self._place_at.get(deployment, float("inf")):
                self._place_at[deployment] = moment
        return due

    def _note_placed(self, deployment: Deployment, now: float) -> None:
        self._placed_at.pop(deployment, None)
        self._placed_at[deployment] = now
        while len(self._placed_at) > _MAX_PLACED:
            del self._placed_at[next(iter(self._placed_at))]

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
        due = _take(self._place_at, now)
        for deployment in due:
            self._note_placed(deployment, now)
        return due

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
