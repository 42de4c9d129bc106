"""Hours across midnight, several spans, time zones and clocks that are changed."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobile_worker.governor.hours import ANY_HOURS, Hours, parse_hours

NIGHT = parse_hours("22:00-07:00")
BERLIN = ZoneInfo("Europe/Berlin")


def at(hour: int, minute: int = 0, zone=UTC, day: int = 10) -> datetime:
    return datetime(2026, 6, day, hour, minute, 30, tzinfo=zone)


@pytest.mark.parametrize(
    ("local", "is_open"),
    [
        (at(21, 59), False),
        (at(22), True),
        (at(23, 59), True),
        (at(0), True),
        (at(6, 59), True),
        (at(7), False),
    ],
)
def test_a_span_over_midnight(local: datetime, *, is_open: bool) -> None:
    assert NIGHT.is_open(local) is is_open


def test_several_spans_and_the_next_start() -> None:
    hours = parse_hours("22:00-24:00, 12:30-13:30")
    assert hours.is_open(at(12, 30))
    assert not hours.is_open(at(13, 30))
    assert hours.is_open(at(23, 59))
    assert not hours.is_open(at(0))
    assert hours.next_start(at(9)) == at(12, 30).replace(second=0)
    assert hours.next_start(at(12, 31)) == at(22).replace(second=0)
    assert hours.next_start(at(22, 1)) == at(12, 30, day=11).replace(second=0)


def test_the_zone_is_that_of_the_moment() -> None:
    moment = datetime(2026, 6, 10, 20, 30, tzinfo=UTC)
    assert not NIGHT.is_open(moment)
    assert NIGHT.is_open(moment.astimezone(BERLIN))
    assert not NIGHT.is_open(moment.astimezone(timezone(timedelta(hours=-7))))


def test_a_start_in_the_hour_that_a_clock_skips_comes_with_the_next_minute() -> None:
    hours = parse_hours("02:30-04:00")
    before = datetime(2026, 3, 29, 1, 59, tzinfo=BERLIN)
    assert not hours.is_open(before)
    after = (before.astimezone(UTC) + timedelta(minutes=1)).astimezone(BERLIN)
    assert (after.hour, hours.is_open(after)) == (3, True)
    start = hours.next_start(before)
    assert start is not None
    assert 0 < start.timestamp() - before.timestamp() <= 3660


def test_any_has_no_start() -> None:
    assert parse_hours(" any ") is ANY_HOURS
    assert ANY_HOURS.is_open(at(3))
    assert ANY_HOURS.next_start(at(3)) is None
    assert str(ANY_HOURS) == "any"


@pytest.mark.parametrize(
    "text",
    [
        *("", "22-7", "22:00-22:00", "00:00-24:00", "24:00-07:00", "22:60-07:00"),
        *("22:00-24:30", "22:00", "a" * 999, "22:00-07:00,", "\uff112:00-13:00"),
        ",".join(["01:00-02:00"] * 9),
    ],
)
def test_what_is_no_hours_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"span|day"):
        parse_hours(text)


_SPANS = st.tuples(st.integers(0, 24 * 60 - 1), st.integers(0, 24 * 60 - 1)).filter(
    lambda span: span[0] != span[1]
)


@settings(max_examples=50)
@given(
    spans=st.lists(_SPANS, min_size=1, max_size=8),
    moment=st.datetimes(
        min_value=datetime(2026, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
        max_value=datetime(2026, 12, 31),  # noqa: DTZ001
        timezones=st.sampled_from([UTC, BERLIN, ZoneInfo("America/New_York")]),
    ),
)
def test_hours_are_what_they_are_written_as_and_a_start_is_open(spans, moment) -> None:
    hours = Hours(tuple(spans))
    assert parse_hours(str(hours)) == hours
    start = hours.next_start(moment)
    assert start is not None
    assert hours.is_open(start)
    # An hour more or less, where a clock is changed on the way.
    assert -3600 <= start.timestamp() - moment.timestamp() <= 25 * 3600
