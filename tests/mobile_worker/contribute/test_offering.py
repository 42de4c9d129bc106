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


def test_the_first_offer_may_be_answered_until_it_is_made_again() -> None:
    times = OfferTimes()
    assert times.is_first
    assert times.is_due(0.0)
    assert times.is_first
    assert times.is_due(2.0)
    assert not times.is_first
    times.start_over()
    assert times.is_first
    times.answered()
    assert not times.is_first


def test_in_doubt_it_offers_again_but_not_faster() -> None:
    times = OfferTimes()
    assert times.is_due(0.0)
    times.answered()
    times.unanswered()
    assert not times.is_due(1.0)
    assert times.is_due(2.0)
