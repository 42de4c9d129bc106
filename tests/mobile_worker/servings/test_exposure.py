"""What counts against the float."""

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.servings.exposure import (
    FORGIVEN_AFTER_S,
    FORGIVEN_SHARE,
    Exposure,
)


def test_live_counts_in_full_and_overdue_beyond_the_forgiven_share() -> None:
    assert Exposure(live=3, overdue=5).at_risk == 8
    assert Exposure(live=3, overdue=5, signed=4 * FORGIVEN_SHARE).at_risk == 4
    assert Exposure(live=3, overdue=5, signed=50 * FORGIVEN_SHARE).at_risk == 3


def test_what_a_killed_backbone_left_weighs_for_ten_minutes() -> None:
    exposure = Exposure(live=60)
    exposure.tick(100.0)
    exposure.unclaimed(50)
    exposure.tick(100.5)
    exposure.unclaimed(10)
    assert (exposure.live, exposure.overdue, exposure.at_risk) == (0, 60, 60)
    exposure.tick(100.0 + FORGIVEN_AFTER_S - 1)
    assert exposure.at_risk == 60
    exposure.tick(100.0 + FORGIVEN_AFTER_S)
    assert (exposure.overdue, exposure.at_risk) == (0, 0)


def test_what_is_accepted_after_all_is_live_again() -> None:
    exposure = Exposure(live=3)
    exposure.unclaimed(2)
    exposure.claimed()
    assert (exposure.live, exposure.overdue) == (2, 1)
    exposure.tick(FORGIVEN_AFTER_S)
    exposure.claimed()  # forgiven meanwhile
    assert (exposure.live, exposure.overdue) == (3, 0)
    exposure.unclaimed(0)
    assert exposure.live == 3


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 4000), st.sampled_from(["take", "late", "claim"])),
        max_size=60,
    )
)
def test_its_counts_never_go_wrong(steps: list[tuple[int, str]]) -> None:
    exposure, now = Exposure(), 0.0
    for pause_tenths, step in steps:
        now += pause_tenths / 10
        exposure.tick(now)
        if step == "take":
            exposure.live += 3
        elif step == "late" and exposure.live:
            exposure.unclaimed(min(2, exposure.live))
        elif step == "claim" and exposure.overdue:
            exposure.claimed()
        assert exposure.live >= 0
        assert exposure.overdue == sum(n for _, n in exposure._since) >= 0
