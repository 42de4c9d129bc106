"""The hours of the day in which a worker may work, by the clock on the wall. Pure.

    any                       always
    22:00-07:00               over midnight
    22:00-07:00,12:30-13:30   several spans

A span begins with its first minute and ends before its last. The time zone is that of
the moment asked about; where a clock is put forward over the beginning of a span, the
span begins with the first minute after.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

__all__ = ["ANY_HOURS", "Hours", "parse_hours"]

_SPAN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)", re.ASCII)
_DAY: Final = 24 * 60
_MAX_SPANS: Final = 8


@dataclass(frozen=True, slots=True)
class Hours:
    """Spans of minutes of the day, [start, end); an end before its start is tomorrow's.

    No span at all means any hour.
    """

    spans: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        """Return what `parse_hours` reads."""
        return ",".join(f"{_text(a)}-{_text(b)}" for a, b in self.spans) or "any"

    def is_open(self, local: datetime) -> bool:
        """Whether work is allowed at this local time."""
        if not self.spans:
            return True
        minute = local.hour * 60 + local.minute
        return any(
            start <= minute < end if start < end else minute >= start or minute < end
            for start, end in self.spans
        )

    def next_start(self, local: datetime) -> datetime | None:
        """Return when the next span begins, in the zone of `local`; None for any."""
        naive = local.replace(tzinfo=None)
        midnight = naive.replace(hour=0, minute=0, second=0, microsecond=0)
        starts = [
            midnight + timedelta(days=day, minutes=start)
            for start, _ in self.spans
            for day in (0, 1)
        ]
        later = min((start for start in starts if start > naive), default=None)
        if later is None:
            return None
        # In the hour that a clock goes through twice: the same time of the two.
        fold = local.fold if later.date() == local.date() else 0
        return later.replace(tzinfo=local.tzinfo, fold=fold)


ANY_HOURS: Final = Hours()


def parse_hours(text: str) -> Hours:
    """Return the hours that a text names.

    Raises:
        ValueError: it names none, an empty span, or more than eight.
    """
    if text.strip() == "any":
        return ANY_HOURS
    parts = text.split(",", _MAX_SPANS)
    if len(parts) > _MAX_SPANS:
        raise ValueError(f"more than {_MAX_SPANS} spans")
    return Hours(tuple(_span(part.strip()) for part in parts))


def _span(text: str) -> tuple[int, int]:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:20]!r} is no span like 22:00-07:00")
    hour, minute, until_hour, until_minute = (int(each) for each in match.groups())
    start, end = hour * 60 + minute, until_hour * 60 + until_minute
    if end > _DAY or start == end or (start, end) == (0, _DAY):
        raise ValueError(f"{text} is no part of a day")
    return start, end % _DAY if end == _DAY else end


def _text(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
