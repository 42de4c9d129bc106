"""Controls of a worker that is not there: real figures, a governor that takes notes."""

from dataclasses import dataclass, field

import trio

from mobile_worker.contribute.controls import Controls
from mobile_worker.contribute.figures import Figures
from mobile_worker.contribute.states import Facts
from mobile_worker.governor.errors import LimitsRefused
from mobile_worker.governor.limits import Limits, Preset
from mobile_worker.governor.pause import Cause, Pause
from mobile_worker.governor.presets import PRESETS
from p2pmoe.contributor.desk import Desk
from relay.keys import PeerId

__all__ = ["FakeGovernor", "StillClock", "worker_controls", "worker_desk"]


class StillClock:
    """A clock that stands at a minute after its start."""

    def monotonic(self) -> float:
        return 60.0

    def wall_us(self) -> int:
        return 1_790_000_000_000_000


@dataclass
class FakeGovernor:
    """Does what a person wishes to the facts at once."""

    facts: Facts
    limits: Limits = PRESETS[Preset.QUIET]
    wishes: list[object] = field(default_factory=list)
    refuses: str = ""

    def set_limits(self, limits: Limits) -> None:
        if self.refuses:
            raise LimitsRefused(self.refuses, advice="free some space")
        self.limits = limits

    def pause(self, for_s: float | None) -> None:
        self.wishes.append(("pause", for_s))
        pause = Pause(cause=Cause.USER, reason="by its user", ends_when="it is resumed")
        self.facts.pauses = (pause,)

    def resume(self) -> None:
        self.wishes.append("resume")
        self.facts.pauses = ()


def worker_controls() -> tuple[Controls, FakeGovernor, list[str]]:
    """Return controls of a worker that is ready, their governor, and what ended it."""
    figures = Figures(lambda _status, _facts: None)
    facts = figures.facts
    facts.joined = facts.relay_is_up = True
    facts.n_leased = facts.n_held = 4
    figures.update(0.0)
    governor, ended = FakeGovernor(facts), []
    controls = Controls(
        figures=figures,
        governor=governor,
        clock=StillClock(),
        stop=trio.Event(),
        end=lambda: ended.append("end"),
        peer_id=PeerId(bytes(range(32))),
    )
    return controls, governor, ended


def worker_desk() -> Desk:
    """Return a desk over such controls."""
    return Desk(controls=worker_controls()[0])
