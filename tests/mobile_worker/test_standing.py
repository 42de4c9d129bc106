"""The numbers travel: they never change their meaning."""

from mobile_worker.standing import StandingReason, StandingState


def test_numbers_are_fixed() -> None:
    assert [state.value for state in StandingState] == [0, 1, 2, 3]
    assert [reason.value for reason in StandingReason] == [0, 1, 2, 3, 4, 5]


def test_who_is_kicked() -> None:
    kicked = [state for state in StandingState if state.is_kicked]
    assert kicked == [StandingState.SUSPENDED, StandingState.REFUSED]
