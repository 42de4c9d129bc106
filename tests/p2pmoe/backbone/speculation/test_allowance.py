"""What speculation may lose."""

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.speculation.allowance import FIRST_PASSES, SHARE, Allowance


def test_a_first_request_gets_some_passes_and_a_later_one_no_more_than_is_left() -> (
    None
):
    allowance = Allowance()
    assert allowance.seconds == 0.0
    allowance.renew(0.5, fresh=True)
    assert allowance.seconds == FIRST_PASSES * 0.5
    allowance.pass_by(1.0, -20.0, 0.5)  # saved a lot
    assert allowance.seconds > 20.0
    allowance.renew(0.5, fresh=False)
    assert allowance.seconds == FIRST_PASSES * 0.5
    allowance.pass_by(1.0, 9.0, 0.5)
    allowance.renew(0.5, fresh=False)
    assert allowance.seconds < 0.0


def test_time_that_goes_by_is_lent_a_share_of() -> None:
    allowance = Allowance()
    for _ in range(10):
        allowance.pass_by(1.0, 0.0, 1.0)
    assert abs(allowance.seconds - 10 * SHARE) < 1e-9


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(-9, 9)), max_size=60))
def test_losses_that_are_covered_stay_within_what_was_lent(
    rounds: list[tuple[float, float]],
) -> None:
    allowance, plain_s, spent, lost = Allowance(), 1.0, 0.0, 0.0
    allowance.renew(plain_s, fresh=True)
    for spent_s, lost_s in rounds:
        if lost_s > allowance.seconds:
            continue
        allowance.pass_by(spent_s, lost_s, plain_s)
        spent, lost = spent + spent_s, lost + lost_s
    assert lost <= FIRST_PASSES * plain_s + SHARE * spent + 1e-6
