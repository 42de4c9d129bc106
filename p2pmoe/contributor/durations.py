"""Durations as people write them: `30m`, `2h`, `1h30m`, `90s`, `1d`; strict.

Pure. For people a duration has its two largest units: `2 h 5 min`.
"""

import re

from p2pmoe.errors import ConfigurationError

__all__ = ["MAX_S", "format_duration", "parse_duration"]

MAX_S = 366 * 86_400
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_FORM = re.compile(
    r"(?:(\d{1,4})d)?(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,7})s)?", re.ASCII
)


def parse_duration(text: str) -> int:
    """Return the seconds that `text` stands for.

    Raises:
        ConfigurationError: it is no duration, nothing, or longer than a year.
    """
    match = _FORM.fullmatch(text.strip().lower())
    seconds = 0
    if match is not None:
        parts = zip(match.groups(), _UNITS.values(), strict=True)
        seconds = sum(int(n) * unit for n, unit in parts if n)
    if not 0 < seconds <= MAX_S:
        raise ConfigurationError(
            f"{text[:40]!r} is no time of up to a year",
            advice="write it like 30m, 2h, 1h30m or 1d",
        )
    return seconds


def format_duration(seconds: float) -> str:
    """Return a duration for people: its two largest units, `2 h 5 min`."""
    left = max(0, int(seconds))
    names = {"d": "d", "h": "h", "m": "min", "s": "s"}
    parts = []
    for unit, n_s in _UNITS.items():
        n, left = divmod(left, n_s)
        if n:
            parts.append(f"{n} {names[unit]}")
    return " ".join(parts[:2]) or "0 s"
