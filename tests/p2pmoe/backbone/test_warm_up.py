"""The measuring pass goes in steps until the text or the time is over."""

import itertools

from p2pmoe.backbone.scattered import ScatteredExperts
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.backbone.warm_up import WARM_UP_TEXT, measure_use
from tests.support.backbone_model import POCKET, local_side


def test_use_is_counted_and_time_ends_it() -> None:
    side = local_side(POCKET)
    experts = ScatteredExperts(side.places(), StepTrace.of(RequestTrace()), 1e9)
    clock = itertools.count()
    n = measure_use(
        side.model,
        experts,
        range(1, 200),
        monotonic=lambda: float(next(clock)),
        limit_s=2.0,
    )
    assert n == 32
    assert side.use.decayed().sum() > 0
    assert sum(count for _, count in side.use.take_since()) == 32 * 4 * 7


def test_short_texts_are_run_whole_and_none_is_nothing() -> None:
    side = local_side(POCKET)
    experts = ScatteredExperts(side.places(), StepTrace.of(RequestTrace()), 1e9)
    run = {"monotonic": lambda: 0.0, "limit_s": 9.0}
    assert measure_use(side.model, experts, [1, 2, 3], **run) == 3
    assert measure_use(side.model, experts, [], **run) == 0
    assert len(WARM_UP_TEXT) > 300
