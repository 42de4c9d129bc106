"""Whether to work now, and with how much: verdicts through latches. Pure.

Each rule has a latch of its own; together they let work go on at most once a minute,
whatever the sensors say (a schedule's begin may so come a minute late). A person may
override what holds now: each latch lets pass until its cause has gone by itself, and
then minds it again. A user's own pause is no latch: it is kept apart and given in.
"""

from dataclasses import dataclass
from typing import Final

from mobile_worker.governor.latch import Latch
from mobile_worker.governor.limits import Limits
from mobile_worker.governor.pause import Pause
from mobile_worker.governor.presets import MANNERS
from mobile_worker.governor.readings import Readings
from mobile_worker.governor.rules import Moment, Verdict, judge_all, judge_use

__all__ = ["GOES_ON_AFTER_S", "Decision", "Policy"]

GOES_ON_AFTER_S: Final = 60.0
_CLOSES_AFTER_S: Final = {"hot": 10.0}
_OPENS_AFTER_S: Final = {"slowdown": 300.0}
_SLOWER: Final = 1.5  # of its first speed: it computes half of the time
_FASTER: Final = 1.3
_HALF: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What holds now. duty: the part of the time in which threads compute."""

    pauses: tuple[Pause, ...] = ()
    n_threads: int = 1
    duty: float = 1.0


class Policy:
    """See the module. `n_cpus`: processors that this process may use."""

    def __init__(self, limits: Limits, n_cpus: int) -> None:
        self.limits = limits
        self._n_cpus = n_cpus
        self._latches: dict[str, Latch] = {}
        self._told: dict[str, Verdict] = {}  # the last one with words, by rule
        self._in_use = Latch(open_after_s=GOES_ON_AFTER_S, is_closed=True)
        self._warm = Latch(close_after_s=10.0, open_after_s=GOES_ON_AFTER_S)

    def look(self, readings: Readings, moment: Moment) -> Decision:
        """Take in how things are; return what is to be done."""
        pauses = [
            self._pause(verdict)
            for verdict in judge_all(self.limits, readings, moment)
            if self._holds(verdict, moment.now)
        ]
        is_used = judge_use(readings)
        in_use = self._in_use.look(moment.now, is_bad=is_used, is_good=not is_used)
        return Decision(
            pauses=tuple(pauses),
            n_threads=self.limits.threads_of(self._n_cpus, in_use=in_use),
            duty=_HALF if self._is_warm(readings, moment.now) else 1.0,
        )

    def change(self, limits: Limits) -> None:
        """Judge by other limits from now on, and at once: a person waits for it."""
        self.limits = limits
        self._latches.clear()

    def override(self) -> None:
        """Let pass what holds now, until its cause has gone by itself."""
        for latch in self._latches.values():
            latch.override()

    def _holds(self, verdict: Verdict, now: float) -> bool:
        if verdict.reason:
            self._told[verdict.name] = verdict
        latch = self._latches.get(verdict.name)
        if latch is None:
            latch = self._latches[verdict.name] = Latch(
                close_after_s=_CLOSES_AFTER_S.get(verdict.name, 0.0),
                open_after_s=_OPENS_AFTER_S.get(verdict.name, GOES_ON_AFTER_S),
            )
        return latch.look(now, is_bad=verdict.is_bad, is_good=verdict.is_good)

    def _pause(self, verdict: Verdict) -> Pause:
        """Return the pause of a closed latch; what is good again is told as it was."""
        told = self._told[verdict.name]
        before = "" if verdict.reason else "until a moment ago "
        return Pause(
            cause=verdict.cause,
            reason=f"{before}{told.reason}",
            ends_when=told.ends_when,
            ends_at=verdict.ends_at,
        )

    def _is_warm(self, readings: Readings, now: float) -> bool:
        factor = readings.slowdown
        minds = MANNERS[self.limits.preset].minds_slowdown
        is_told = readings.temperature_c is not None
        if factor is None or is_told or not minds:
            return self._warm.look(now, is_bad=False, is_good=True)
        return self._warm.look(now, is_bad=factor > _SLOWER, is_good=factor < _FASTER)
