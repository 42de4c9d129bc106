"""Whether the market is there, by what did not reach it."""

from mobile_worker.links.events import UndeliveredReason
from mobile_worker.links.service_watch import ABSENT, ServiceWatch


def test_it_is_away_from_the_first_miss_until_it_says_something() -> None:
    watch = ServiceWatch()
    assert not watch.is_away
    assert watch.away_s(100.0) == 0
    watch.missed(100.0)
    watch.missed(130.0)
    assert watch.is_away
    assert watch.away_s(150.0) == 50
    watch.heard()
    assert watch.away_s(150.0) == 0


def test_a_full_queue_is_no_absence() -> None:
    assert UndeliveredReason.NOT_HERE in ABSENT
    assert UndeliveredReason.QUEUE_FULL not in ABSENT
    assert UndeliveredReason.EXPIRED not in ABSENT
