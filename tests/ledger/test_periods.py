"""Periods: UTC, half-open, whatever the machine's zone."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import PeriodRefused
from ledger.periods import ALL_TIME, Period, format_us, instant_us, parse_period

OCTOBER_US = 1_790_812_800_000_000  # 2026-10-01T00:00:00Z


def test_b38_borders_to_the_microsecond():
    september, october = parse_period("2026-09"), parse_period("2026-10")
    assert september.end_us == october.start_us == OCTOBER_US
    assert OCTOBER_US in october
    assert OCTOBER_US not in september
    assert OCTOBER_US - 1 in september
    west = timezone(timedelta(hours=-8))
    late = instant_us(datetime(2026, 9, 30, 23, 30, tzinfo=west))
    assert format_us(late) == "2026-10-01T07:30:00.000000Z"
    assert late in october
    assert str(september) == (
        "[2026-09-01T00:00:00.000000Z, 2026-10-01T00:00:00.000000Z)"
    )


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026", (2026, 1, 1), (2027, 1, 1)),
        ("2026-12", (2026, 12, 1), (2027, 1, 1)),
        ("2028-02", (2028, 2, 1), (2028, 3, 1)),
        ("2028-02-29", (2028, 2, 29), (2028, 3, 1)),
        ("2026-03-29", (2026, 3, 29), (2026, 3, 30)),  # a night of summer time
        ("2026-11-01..2026-11-15", (2026, 11, 1), (2026, 11, 15)),
        ("2026-11..2027", (2026, 11, 1), (2027, 1, 1)),
    ],
)
def test_what_periods_mean(text, start, end):
    borders = [instant_us(datetime(*day, tzinfo=UTC)) for day in (start, end)]
    assert parse_period(text) == Period(*borders)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "26",
        "2026-13",
        "2026-00",
        "2026-11-00",
        "2026-02-30",
        "2026-1",
        "0000",
        "9999",
        "2026-11-1",
        "2026..2025",
        "2026..2026",
        "2026/11",
        "٢٠٢٦",
        "2026-11-01T00",
    ],
)
def test_what_is_no_period(text):
    with pytest.raises(PeriodRefused) as caught:
        parse_period(text)
    assert "UTC" in caught.value.advice


@given(st.integers(0, ALL_TIME.end_us - 1))
def test_instants_are_exact(instant):
    text = format_us(instant)
    parsed = datetime.fromisoformat(text)
    assert instant_us(parsed) == instant
    assert parse_period(text[:7]) == parse_period(f"{parsed.year}-{parsed.month:02d}")
    assert instant in parse_period(text[:10])


def test_naive_datetimes_are_refused():
    with pytest.raises(PeriodRefused, match="no offset"):
        instant_us(datetime(2026, 1, 1))  # noqa: DTZ001  this is the fault


def test_b38_the_machines_zone_does_not_matter():
    code = (
        "from ledger.periods import *;"
        "print(parse_period('2026-10'), format_us(1790812799999999))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for zone in ("UTC", "Pacific/Kiritimati", "America/Los_Angeles")
    }
    assert outputs == {
        "[2026-10-01T00:00:00.000000Z, 2026-11-01T00:00:00.000000Z) "
        "2026-09-30T23:59:59.999999Z\n"
    }


@pytest.mark.parametrize("instant", [-1, ALL_TIME.end_us, 2**63 - 1])
def test_an_instant_that_no_calendar_has_is_its_number(instant):
    assert format_us(instant) == f"{instant}us"
