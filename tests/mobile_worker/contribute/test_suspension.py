"""Sleep, and clocks that are set."""

from mobile_worker.contribute.suspension import SuspensionWatch


def test_b28_time_that_passed_unseen_is_noticed_once() -> None:
    watch = SuspensionWatch()
    assert not watch.look(10.0, 1_000_000_000)
    assert not watch.look(11.0, 1_001_000_000)
    assert not watch.look(12.0, 1_031_000_000)
    assert watch.look(13.0, 7_200_000_000)
    assert not watch.look(14.0, 7_201_000_000)
    assert not watch.look(15.0, 1_000_000)
    assert not watch.look(1000.0, 986_000_000)
