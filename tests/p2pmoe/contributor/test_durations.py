"""Durations: what is one, what is none, and how they are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.contributor.durations import MAX_S, format_duration, parse_duration
from p2pmoe.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("90s", 90), ("1D", 86_400)],
)
def test_what_is_one(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0m", "30", "m", "-5m", "1.5h", "30m2h", "9999d", "٣m", "x" * 9999]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ConfigurationError, match="no time") as caught:
        parse_duration(text)
    assert len(str(caught.value)) < 100


@given(st.integers(1, MAX_S))
def test_seconds_come_back(seconds: int) -> None:
    hours, rest = divmod(seconds, 3600)
    minutes, left = divmod(rest, 60)
    assert parse_duration(f"{hours}h{minutes}m{left}s") == seconds


def test_for_people() -> None:
    assert format_duration(0.4) == "0 s"
    assert format_duration(59.9) == "59 s"
    assert format_duration(7_505) == "2 h 5 min"
    assert format_duration(90_061) == "1 d 1 h"
    assert format_duration(-5) == "0 s"
