"""Drafting on, behind drafts whose verification waits for workers.

Verification writes keys and values layer by layer; drafting writes behind them, and
once, with the token that follows the last draft, over its last position. What
verification had put there is put back, so that the pass never reads what a drafter
wrote. A step of drafting is begun only if the wait is likely to be as long: else it
would hold up an answer that is there (`Pace`).
"""

from collections.abc import Callable, Sequence
from typing import Final

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.pass_record import PassRecord
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.speculation.drafts import Draft, DraftWish
from p2pmoe.backbone.speculation.guarded import GuardedDrafting
from p2pmoe.model.walk import Walk

__all__ = ["InFlight", "Pace", "run_walk"]

_WEIGHT: Final = 0.2  # of the latest


class Pace:
    """How long a trip and a step of drafting take, in seconds; running means."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self.trip_s: float | None = None
        self.step_s: float | None = None

    def pays(self, waited_s: float) -> bool:
        """Whether a trip that began so long ago likely lasts for another step."""
        if self.trip_s is None or self.step_s is None:
            return True
        return waited_s + self.step_s <= self.trip_s

    def drafted(self, seconds: float) -> None:
        """Take in a step of drafting."""
        self.step_s = _mean(self.step_s, seconds)

    def tripped(self, seconds: float) -> None:
        """Take in a trip."""
        self.trip_s = _mean(self.trip_s, seconds)


def _mean(before: float | None, latest: float) -> float:
    return latest if before is None else before + _WEIGHT * (latest - before)


class InFlight:
    """What is drafted during one pass."""

    def __init__(
        self,
        *,
        drafting: GuardedDrafting,
        sequences: Sequence[SequenceState],
        wishes: Sequence[DraftWish],
        routed: Sequence[int],
        pace: Pace,
        monotonic: Callable[[], float],
    ) -> None:
        """Begin with nothing drafted; `routed` are the numbers of routed layers."""
        self.pace = pace
        self.monotonic = monotonic
        self._drafting = drafting
        self._sequences = sequences
        self._wishes = wishes
        self._routed = routed
        self._n_steps = 0
        self.spent_s = 0.0  # within waits

    def advance(self, n_passed: int) -> bool:
        """Draft one more token of each; `n_passed` routed layers are verified."""
        if self._n_steps:
            self._n_steps += 1
            return self._drafting.advance()
        n_layers = self._routed[n_passed - 1] + 1
        kept = [
            (wish, wish.cache.copy_position(wish.cache.length, n_layers))
            for wish in self._wishes
        ]
        more = self._drafting.advance()
        for wish, position in kept:
            wish.cache.put_position(wish.cache.length, position)
        self._n_steps = 1
        return more

    def drafts(self) -> list[tuple[SequenceState, Draft]]:
        """Return what was drafted for each sequence: the first token is a guess."""
        if not self._n_steps:
            return []
        return list(zip(self._sequences, self._drafting.drafts(), strict=True))


def run_walk(walk: Walk, in_flight: InFlight, record: PassRecord) -> list[Floats]:
    """Run a step to its end and draft in its waits; raises as `Walk.run`."""
    pace, now = in_flight.pace, in_flight.monotonic
    is_over, n_trips, wait_s, drafted_s = False, record.n_trips, record.wait_s, 0.0
    while (pending := walk.advance()) is not None:
        if record.n_trips > n_trips:
            pace.tripped(record.wait_s - wait_s + drafted_s)
        n_trips, wait_s, drafted_s = record.n_trips, record.wait_s, 0.0
        began = now()
        while not is_over and pace.pays(now() - began) and not pending.is_ready():
            start = now()
            is_over = not in_flight.advance(walk.n_passed)
            took_s = now() - start
            pace.drafted(took_s)
            record.drafted(took_s)
            in_flight.spent_s += took_s
            # An answer that is there came before the end of this step, at the latest.
            drafted_s = (start if pending.is_ready() else now()) - began
    return walk.logits
