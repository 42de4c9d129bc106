"""A sequence's own counts; figures of several steps together."""

from p2pmoe.backbone.generation import StepFigures, TierCalls
from p2pmoe.backbone.scheduling.sequence import Origin, SequenceState, add_figures
from p2pmoe.backbone.trace import RequestTrace
from tests.support.lanes import a_request
from tests.support.recalling_model import RecallingModel


def test_what_is_pending_is_what_the_cache_does_not_hold() -> None:
    sequence = SequenceState(
        request=a_request([1, 2, 3], 4),
        trace=RequestTrace(),
        submitted=0.0,
        deadline=1.0,
    )
    assert (sequence.n_prompt, sequence.n_drawn, sequence.limit) == (3, 0, 7)
    assert (sequence.length, sequence.n_pending) == (0, 3)
    cache = RecallingModel().new_cache(8)
    sequence.origin = Origin(cache=cache, length=2, is_own=False)
    assert (sequence.length, sequence.n_pending) == (2, 1)
    sequence.cache = cache
    assert sequence.length == 0
    sequence.tokens.append(9)
    assert sequence.n_drawn == 1
    assert sequence.key().tolist() == [1, 2, 3, 9]
    sequence.drop_cache()
    assert (sequence.cache, sequence.origin, sequence.n_pending) == (None, None, 4)


def test_figures_add_up() -> None:
    one = StepFigures(
        calls=TierCalls(ram=1, hub=2), seconds=0.5, wait_s=0.25, n_rows=64, bytes_up=7
    )
    two = StepFigures(calls=TierCalls(ram=3, edge=1), seconds=1.0, n_rows=2)
    both = add_figures(add_figures(None, one), two)
    assert both.calls == TierCalls(ram=4, hub=2, edge=1)
    assert (both.seconds, both.wait_s, both.n_rows) == (1.5, 0.25, 64)
    assert both.bytes_up == 7
