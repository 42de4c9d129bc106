"""What a worker is told of its standing: STANDING, with the reason in figures.

A new state is told at once, new figures at most every 30 s, and an offer is always
answered by it. Pure; times are monotonic seconds.
"""

import math
from collections.abc import Container, Iterable

from mobile_worker.messages import Standing
from mobile_worker.standing import StandingReason, StandingState
from p2pmoe.market.outgoing import Send
from p2pmoe.market.standing import Record, Standings
from relay.keys import PeerId

__all__ = ["FIGURES_S", "Telling", "words_of"]

FIGURES_S = 30.0
_MOST = 0xFFFF_FFFF

_WRONG = {
    StandingReason.WRONG_CANARY: "another result than other domains gave",
    StandingReason.WRONG_SERVING: "a paid serving that others computed otherwise",
}


def words_of(
    record: Record, state: StandingState, needed: int, reason: StandingReason
) -> str:
    """Return why a key stands as it does, in words and figures."""
    if state is StandingState.REFUSED:
        return f"this key is refused: wrong results confirmed {len(record.cases)} times"
    if state is StandingState.SUSPENDED and reason is StandingReason.NEIGHBOURS:
        return "several keys of this failure domain gave wrong results of late"
    if state is StandingState.SUSPENDED:
        wrong = _WRONG.get(record.reason, "a wrong result")
        return f"{wrong}; a second time refuses this key"
    checks = f"{min(record.credit, needed)} of {needed} checks passed"
    if state is StandingState.PROBATION:
        again = ", after a wrong result" if record.cases else ""
        return f"{checks}{again}: its replicas do not count yet"
    return f"{record.credit} checks passed"


class Telling:
    """What was told to whom, and when."""

    def __init__(self, standings: Standings) -> None:
        """Nobody has been told anything."""
        self._standings = standings
        self._told: dict[PeerId, tuple[StandingState, float]] = {}
        self._waiting: set[PeerId] = set()
        self._due_at = float("inf")  # of those that wait, never later than the truth

    def tell(self, peer: PeerId, now: float, *, closed_s: float = 0.0) -> Send:
        """Return what a worker is told now; `closed_s`: its domain is, for so long."""
        standings, record = self._standings, self._standings.of(peer)
        state, reason = standings.state(peer), record.reason
        until_s = standings.suspended_s(peer, now)
        if closed_s > 0:
            state, reason = StandingState.SUSPENDED, StandingReason.NEIGHBOURS
            until_s = closed_s
        elif state is StandingState.PROBATION and record.cases:
            reason = StandingReason.BEGUN_AGAIN
        self._told[peer] = (state, now)
        self._waiting.discard(peer)
        is_for_good = state is StandingState.REFUSED
        said = Standing(
            state=int(state),
            reason=int(reason),
            detail=words_of(record, state, standings.needed(peer), reason),
            passes=min(record.credit, _MOST),
            mismatches=min(record.mismatches, _MOST),
            timeouts=min(record.timeouts, _MOST),
            until_s=0 if is_for_good else min(math.ceil(until_s), _MOST),
        )
        return Send(peer, said)

    def changed(self, peers: Iterable[PeerId]) -> None:
        """Note whose record has changed."""
        for peer in peers:
            self._waiting.add(peer)
            self._due_at = min(self._due_at, self._due_of(peer))

    def take(self, present: Container[PeerId], now: float) -> list[Send]:
        """Return what is due to be told to those who are there."""
        if now < self._due_at:
            return []
        due = []
        for peer in sorted(self._waiting):
            if peer not in present:
                self._waiting.discard(peer)
            elif self._due_of(peer) <= now:
                due.append(self.tell(peer, now))
        self._due_at = min(map(self._due_of, self._waiting), default=float("inf"))
        return due

    def _due_of(self, peer: PeerId) -> float:
        """Return when a peer that waits is to be told."""
        state, at = self._told.get(peer, (None, float("-inf")))
        if state != self._standings.state(peer):
            return float("-inf")
        return at + FIGURES_S

    def forget(self, peer: PeerId) -> None:
        """A worker is there no more."""
        self._told.pop(peer, None)
        self._waiting.discard(peer)

    def next_due(self) -> float | None:
        """Return when somebody may next have something to hear."""
        return self._due_at if self._waiting else None
