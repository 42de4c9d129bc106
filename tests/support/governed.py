"""A worker that is governed: sensors that a test sets, and its controls."""

from dataclasses import dataclass, field

import trio

from mobile_worker.contribute.controls import Controls
from mobile_worker.governor.limits import Preset
from mobile_worker.governor.presets import PRESETS
from mobile_worker.governor.readings import Power, Readings

__all__ = ["FINE", "QUIET", "Governed", "SetSensors"]

QUIET = PRESETS[Preset.QUIET]
FINE = Readings(
    power=Power.MAINS, battery_percent=80, is_metered=False, others_share=0.0
)


@dataclass
class SetSensors:
    """Tells what it is set to."""

    readings: Readings = FINE

    def look(self, now: float) -> Readings:
        return self.readings

    async def run(self) -> None:
        await trio.sleep_forever()


@dataclass
class Governed:
    """What a governed worker is run with; `controls` once it runs."""

    sensors: SetSensors = field(default_factory=SetSensors)
    seen: list[Controls] = field(default_factory=list)

    async def beside(self, controls: Controls) -> None:
        self.seen.append(controls)
        await trio.sleep_forever()

    @property
    def controls(self) -> Controls:
        return self.seen[-1]

    def options(self, **others: object) -> dict[str, object]:
        return {
            "limits": QUIET,
            "sensors": self.sensors,
            "beside": self.beside,
            **others,
        }
