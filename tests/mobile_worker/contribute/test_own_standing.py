from mobile_worker.contribute.own_standing import OwnStanding
from mobile_worker.messages import Standing
from mobile_worker.standing import StandingReason, StandingState


def standing(state: int, *, until_s: int = 0, detail: str = "why") -> Standing:
    return Standing(
        state=state,
        reason=int(StandingReason.NEW),
        detail=detail,
        passes=4,
        mismatches=2,
        timeouts=3,
        until_s=until_s,
    )


def test_while_the_market_is_silent_there_is_nothing_to_show() -> None:
    found = OwnStanding()
    assert (found.probation, found.kicked, found.ends_when(0.0)) == ("", "", "")
    assert found.may_offer(0.0)


def test_probation_is_shown_in_the_markets_words() -> None:
    found = OwnStanding()
    found.said(standing(StandingState.PROBATION, detail="4 of 20"), 0.0)
    assert found.probation == "4 of 20"
    assert found.kicked == ""
    assert "checks" in found.ends_when(0.0)
    assert (found.passes, found.mismatches, found.timeouts) == (4, 2, 3)
    found.said(standing(StandingState.GOOD), 1.0)
    assert (found.probation, found.ends_when(1.0)) == ("", "")


def test_a_suspended_worker_offers_again_when_its_time_is_over() -> None:
    found = OwnStanding()
    found.said(standing(StandingState.SUSPENDED, until_s=90, detail="wrong"), 100.0)
    assert found.kicked == "wrong"
    assert found.ends_when(100.0) == "in 2 minutes"
    assert found.ends_when(189.0) == "in 1 minute"
    assert not found.may_offer(189.9)
    assert found.may_offer(190.0)


def test_a_refused_key_never_offers() -> None:
    found = OwnStanding()
    found.said(standing(StandingState.REFUSED, detail=""), 0.0)
    assert found.kicked == "refused by the market"
    assert found.ends_when(0.0).startswith("never")
    assert not found.may_offer(1e9)


def test_a_state_of_a_newer_market_changes_nothing_but_the_figures() -> None:
    found = OwnStanding()
    found.said(standing(StandingState.PROBATION), 0.0)
    found.said(standing(77), 0.0)
    assert found.state is StandingState.PROBATION
