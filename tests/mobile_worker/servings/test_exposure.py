"""What counts against the float."""

from mobile_worker.servings.exposure import FORGIVEN_SHARE, Exposure


def test_live_counts_in_full_and_overdue_beyond_the_forgiven_share() -> None:
    assert Exposure(live=3, overdue=5).at_risk == 8
    assert Exposure(live=3, overdue=5, signed=4 * FORGIVEN_SHARE).at_risk == 4
    assert Exposure(live=3, overdue=5, signed=50 * FORGIVEN_SHARE).at_risk == 3
