"""Why a worker rests: one cause each, with its reason in numbers and what ends it.

Causes are independent of each other (a user's pause and an empty battery may both hold;
ending one leaves the other), so a pause is a value in a set and never one field that
the next event overwrites.
"""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["OVERRIDE", "Cause", "Pause"]

OVERRIDE = "p2pmoe resume"


class Cause(StrEnum):
    """What a pause comes from, in the order in which they are told."""

    USER = "user"
    BATTERY = "battery"
    HOT = "hot"
    METERED = "metered"
    SCHEDULE = "schedule"
    QUOTA = "quota"
    BUSY = "busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One reason to rest.

    reason, ends_when: words with numbers. ends_at: monotonic seconds, where the end is
    known. override: the command that ends it now; it holds until the cause has passed.
    """

    cause: Cause
    reason: str
    ends_when: str
    ends_at: float | None = None
    override: str = OVERRIDE
