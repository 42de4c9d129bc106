"""Dispatches that were called off, and whose answers may be on their way all the same.

A CANCEL needs half a round trip to reach its worker, and what runs there is finished.
So the work of a called-off dispatch may have been done in good faith, and design 05 has
it paid: "every valid row that arrived in time, hedge losers before CANCEL included".

- An answer that comes within the worker's own p95 round trip after our CANCEL, and
  within `LONGEST_TRIP_S`, had most likely left before the CANCEL arrived: it is paid. A
  later one is not: what a round trip takes is what the worker made us measure.
- If another answer was taken it is looked at until the dispatch's own deadline, since a
  late one, too, can be compared with that.
- Then its serving numbers are given back, once, and the time that it is known to have
  taken at least counts among its worker's calls.

State only; times are the caller's monotonic seconds.
"""

from dataclasses import dataclass

from p2pmoe.backbone.attempts import Attempt, Purpose
from p2pmoe.backbone.cost import WorkerCost
from relay.keys import PeerId

__all__ = ["LONGEST_TRIP_S", "Withdrawals", "Withdrawn"]

LONGEST_TRIP_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Withdrawn:
    """One dispatch that was called off at a moment."""

    attempt: Attempt
    at: float
    paid_until: float
    kept_until: float


class Withdrawals:
    """All of them, until they are answered or out of date."""

    def __init__(self) -> None:
        """Begin with none."""
        self._items: dict[int, Withdrawn] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._items)

    def add(self, attempt: Attempt, cost: WorkerCost, now: float) -> Withdrawn:
        """Note a dispatch that was called off now; `cost` is its worker's.

        A probe is not called off, it is only not waited for: it has its whole time.
        """
        is_probe = attempt.purpose is Purpose.PROBE
        trip_s = min(cost.trip_s(), LONGEST_TRIP_S)
        paid_until = attempt.deadline if is_probe else now + trip_s
        kept_until = max(paid_until, attempt.deadline if attempt.is_beaten else now)
        item = Withdrawn(
            attempt=attempt, at=now, paid_until=paid_until, kept_until=kept_until
        )
        self._items[attempt.request] = item
        return item

    def get(self, request: int) -> Withdrawn | None:
        """Return the dispatch of this id, if it was called off not long ago."""
        return self._items.get(request)

    def remove(self, item: Withdrawn) -> None:
        """Forget one: it was answered, or nothing comes any more."""
        del self._items[item.attempt.request]

    def of_worker(self, peer: PeerId) -> list[Withdrawn]:
        """Return those of one worker."""
        return [item for item in self._items.values() if item.attempt.peer == peer]
