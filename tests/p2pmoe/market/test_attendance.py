import random

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.attendance import Attendance, Sums, has_changed
from p2pmoe.market.devices import AVAILABILITY_PERMILLE, STAY_S, departures_of
from relay.keys import PeerId
from tests.support.market_worlds import make_device

PEER = PeerId(b"p" * 32)
HOUR = 3600.0
DAY = 24 * HOUR


def days_of(there_h: float, n_days: int) -> Attendance:
    """There for some hours of every day."""
    attendance, now = Attendance({}), 0.0
    for _ in range(n_days):
        attendance.came(PEER, now)
        attendance.left(PEER, now + there_h * HOUR)
        now += DAY
    attendance.came(PEER, now)
    return attendance


def test_what_is_not_known_is_as_usual_for_the_class() -> None:
    for device_class in DeviceClass:
        found = Attendance({}).stay(PEER, device_class, 0.0)
        assert found == (
            AVAILABILITY_PERMILLE[device_class],
            departures_of(STAY_S[device_class]),
        )


def test_a_laptop_of_evenings_and_a_phone_that_never_leaves() -> None:
    evenings = days_of(3, 14)
    availability, departures = evenings.stay(PEER, DeviceClass.LAPTOP, 14 * DAY)
    assert 200 < availability < 350
    assert 3 * HOUR < 1e9 / departures < 5 * HOUR
    steady = Attendance({})
    steady.came(PEER, 0.0)
    availability, departures = steady.stay(PEER, DeviceClass.PHONE, 14 * DAY)
    assert availability > 900
    assert 1e9 / departures > 3 * DAY


def test_an_hour_proves_little() -> None:
    attendance = Attendance({})
    attendance.came(PEER, 0.0)
    availability, _ = attendance.stay(PEER, DeviceClass.BROWSER, HOUR)
    assert availability < 550


def test_leaving_twice_counts_once_and_the_unknown_not_at_all() -> None:
    attendance = Attendance({})
    attendance.left(PEER, 1.0)
    assert attendance.newest(10) == []
    attendance.came(PEER, 0.0)
    attendance.left(PEER, 10.0)
    attendance.left(PEER, 20.0)
    ((_, sums),) = attendance.newest(10)
    assert (sums.n_departures, sums.there_s) == (1.0, 10.0)


def test_time_while_the_market_was_down_is_not_watched() -> None:
    known = Sums(there_s=DAY, watched_s=DAY, n_departures=0.0)
    attendance = Attendance({PEER: known})
    attendance.came(PEER, 9 * DAY)
    assert attendance.newest(1) == [(PEER, known)]


def test_of_too_many_the_longest_unseen_is_forgotten(monkeypatch) -> None:
    monkeypatch.setattr("p2pmoe.market.attendance._MAX_WORKERS", 3)
    attendance = Attendance({})
    peers = [PeerId(bytes([n]) * 32) for n in range(5)]
    for now, peer in enumerate(peers):
        attendance.came(peer, float(now))
    assert [peer for peer, _ in attendance.newest(10)] == peers[2:]
    assert [peer for peer, _ in attendance.newest(1)] == peers[4:]


@given(st.integers(0, 2**32))
def test_every_value_stays_within_bounds(seed: int) -> None:
    rng = random.Random(seed)
    attendance, now = Attendance({}), 0.0
    for _ in range(20):
        now += rng.choice((0.0, 1.0, 50.0, DAY, 400 * DAY))
        rng.choice((attendance.came, attendance.left))(PEER, now)
        for device_class in DeviceClass:
            availability, departures = attendance.stay(PEER, device_class, now)
            assert 50 <= availability <= 1000
            assert 1 <= departures <= 10**9


def test_only_what_matters_is_counted_anew() -> None:
    device = make_device("d", DeviceClass.LAPTOP, 1)
    same = (device.availability, device.departures)
    assert not has_changed(device, same)
    assert not has_changed(device, (same[0] - 49, same[1] + 1))
    assert has_changed(device, (same[0] - 50, same[1]))
    assert has_changed(device, (same[0], 2 * same[1]))
