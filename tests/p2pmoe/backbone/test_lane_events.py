"""What a lane tells."""

from p2pmoe.backbone.lane_events import Admitted, DeadlinePassed, Over
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.trace import RequestTrace
from tests.support.lanes import a_request


def test_events_are_of_one_sequence() -> None:
    def a_sequence() -> SequenceState:
        return SequenceState(
            request=a_request([1]), trace=RequestTrace(), submitted=0.0, deadline=1.0
        )

    one, other = a_sequence(), a_sequence()
    assert Admitted(one) == Admitted(one) != Admitted(other)
    late = DeadlinePassed("the request's deadline passed after 3 tokens")
    assert Over(one, late).cause.advice
