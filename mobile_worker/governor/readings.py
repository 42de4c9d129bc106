"""What the sensors of a machine say at one moment; None and UNKNOWN: they do not say.

A reading is a fact about the machine. Whether it means to rest is the policy's.
"""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["NOTHING_KNOWN", "Power", "Readings"]


class Power(StrEnum):
    """Where the machine's power comes from."""

    MAINS = "mains"
    BATTERY = "battery"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """One look at the sensors.

    battery_percent: 0 to 100. temperature_c, battery_c: the hottest of the processor's
    and of the battery's. is_metered: whether traffic costs. others_share: 0 to 1, of
    all processors, taken by other programs in the last 10 s. own_cpus: processors that
    this process kept busy in that time. input_idle_s: since somebody used the machine.
    slowdown: what a multiply-add takes by what it took at first.
    """

    power: Power = Power.UNKNOWN
    battery_percent: int | None = None
    temperature_c: float | None = None
    battery_c: float | None = None
    is_metered: bool | None = None
    others_share: float | None = None
    own_cpus: float | None = None
    input_idle_s: float | None = None
    slowdown: float | None = None


NOTHING_KNOWN = Readings()
