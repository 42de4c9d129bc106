"""Pauses between offers."""

from mobile_worker.contribute.offering import OfferTimes


def test_at_once_then_with_growing_pauses_until_answered() -> None:
    times = OfferTimes()
    sent = [at for at in range(200) if times.is_due(float(at))]
    assert sent == [0, 2, 6, 14, 30, 60, 90, 120, 150, 180]
    times.answered()
    assert not times.is_due(1000.0)
    times.start_over()
    assert times.is_due(1000.0)
    assert not times.is_due(1001.0)
    assert times.is_due(1002.0)
