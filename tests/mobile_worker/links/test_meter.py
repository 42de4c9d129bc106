"""What probes say of one path."""

import pytest

from mobile_worker.links.meter import Meter


def probe(meter: Meter, trip_s: float, now: float) -> None:
    meter.probed(int(now * 1000), now)
    assert meter.answered(int(now * 1000), now + trip_s)


def test_only_the_awaited_answer_proves_a_path() -> None:
    meter = Meter()
    assert not meter.answered(0, 1.0)
    meter.probed(7, 100.0)
    assert meter.is_waiting
    assert not meter.answered(8, 100.1)
    assert not meter.proven
    assert meter.answered(7, 100.5)
    assert meter.proven
    assert not meter.is_waiting
    assert meter.round_trip_s == 0.5
    assert meter.alive_at == meter.answered_at == 100.5
    assert not meter.answered(7, 100.6)


def test_one_slow_probe_changes_nothing_and_a_slow_path_does() -> None:
    meter = Meter()
    for now in range(5):
        probe(meter, 0.01, float(now))
    probe(meter, 3.0, 10.0)
    assert meter.round_trip_s == pytest.approx(0.01)
    for now in range(20, 22):
        probe(meter, 0.2, float(now))
    assert meter.round_trip_s == pytest.approx(0.2)


def test_a_probe_without_answer_is_overdue_after_its_patience() -> None:
    meter = Meter()
    assert not meter.is_overdue(1e9)
    probe(meter, 0.05, 1.0)
    assert not meter.is_overdue(1e9)
    meter.probed(7, 10.0)
    assert not meter.is_overdue(10.5)
    assert meter.is_overdue(10.61)
    meter.alive_at = 10.01  # bytes came though the answer did not
    assert not meter.is_overdue(20.0)


def test_a_long_path_is_given_three_round_trips() -> None:
    meter = Meter()
    probe(meter, 0.5, 1.0)
    meter.probed(7, 10.0)
    assert not meter.is_overdue(11.4)
    assert meter.is_overdue(11.5)


def test_an_answer_ends_the_doubt_and_measuring_begins_anew() -> None:
    meter = Meter()
    probe(meter, 0.001, 1.0)
    meter.doubted = True
    probe(meter, 3.0, 2.0)
    assert meter.proven
    assert not meter.doubted
    assert meter.round_trip_s is None
    probe(meter, 0.002, 10.0)
    assert meter.round_trip_s == pytest.approx(0.002)
