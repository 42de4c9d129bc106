"""Periods of time: UTC, half-open, integer microseconds.

Contract: a period is [start, end): every instant is in exactly one of two adjacent
periods. `2026`, `2026-11` and `2026-11-30` mean UTC whatever the machine's zone;
`A..B` begins where A begins and ends where B begins. Nothing here reads a clock, and
no float is involved.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ledger.errors import PeriodRefused

__all__ = ["ALL_TIME", "Period", "format_us", "instant_us", "parse_period"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """The instants from `start_us` up to, not including, `end_us`."""

    start_us: int
    end_us: int

    def __str__(self) -> str:
        """Return both borders."""
        return f"[{format_us(self.start_us)}, {format_us(self.end_us)})"

    def __contains__(self, instant: int) -> bool:
        """Say whether an instant in microseconds is in the period."""
        return self.start_us <= instant < self.end_us


ALL_TIME = Period(0, 253_370_764_800_000_000)  # 1970 to the beginning of 9999


def instant_us(moment: datetime) -> int:
    """Return an aware datetime as microseconds since 1970 UTC, exactly.

    Raises:
        PeriodRefused: the datetime has no offset.
    """
    if moment.tzinfo is None:
        raise PeriodRefused(f"{moment.isoformat()} has no offset from UTC")
    return (moment - _EPOCH) // _MICROSECOND


def format_us(instant: int) -> str:
    """Return microseconds since 1970 as an ISO 8601 instant in UTC.

    One that no calendar here has is written as the number.
    """
    if not 0 <= instant < ALL_TIME.end_us:
        return f"{instant}us"
    moment = _EPOCH + timedelta(microseconds=instant)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{instant % 1_000_000:06d}Z"


def parse_period(text: str) -> Period:
    """Read `2026`, `2026-11`, `2026-11-30` or `A..B`.

    Raises:
        PeriodRefused: nothing of that kind, no such date, or an empty period.
    """
    first, dots, second = text.partition("..")
    start, end = _borders(first)
    if dots:
        end, _ = _borders(second)
    if start >= end:
        raise PeriodRefused(f"period {text!r} is empty")
    return Period(start, end)


def _borders(text: str) -> tuple[int, int]:
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise PeriodRefused(f"no period: {text!r}")
    year, month, day = (int(part) if part else None for part in match.groups())
    try:
        in_month = 1 if month is None else month  # 0 is none
        in_day = 1 if day is None else day
        start = datetime(year or 0, in_month, in_day, tzinfo=UTC)
        if day is not None:
            end = start + timedelta(days=1)
        elif month is not None:
            end = (start + timedelta(days=31)).replace(day=1)
        else:
            end = start.replace(year=start.year + 1)
    except (ValueError, OverflowError) as exc:
        raise PeriodRefused(f"no period: {text!r}") from exc
    return instant_us(start), instant_us(end)
