"""Drafting behind a verification: its pace, and what it must not leave behind."""

import numpy as np
import pytest

from p2pmoe.backbone.pass_record import PassRecord
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.speculation.drafts import DraftWish
from p2pmoe.backbone.speculation.guarded import Guards
from p2pmoe.backbone.speculation.in_flight import InFlight, Pace, run_walk
from p2pmoe.backbone.trace import RequestTrace
from p2pmoe.model.kv_cache import KvCache, empty_layer
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.model.walk import Layers, Walk
from tests.support.drafters import ScriptedDraft
from tests.support.lanes import a_request

N_LAYERS = 3


class Clock:
    """Seconds that a test lets pass."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Away:
    """A layer's experts that answer at a moment of the clock."""

    def __init__(self, clock: Clock, answer_s: float, record: PassRecord) -> None:
        self.clock, self.answer_s, self.record = clock, answer_s, record

    def compute(self) -> None:
        pass

    def is_ready(self) -> bool:
        return self.clock() >= self.answer_s

    def finish(self) -> None:
        waited_s = max(0.0, self.answer_s - self.clock())
        self.clock.now += waited_s
        self.record.waited(waited_s)


def a_cache() -> KvCache:
    layers = tuple(empty_layer(16, 2, 4, 4, 3) for _ in range(N_LAYERS))
    cache = KvCache(16, layers)
    cache.advance(4)
    return cache


def in_flight_of(
    drafter: ScriptedDraft, cache: KvCache, clock: Clock, pace: Pace | None = None
) -> InFlight:
    wish = DraftWish(
        number=0, tokens=[1] * 7, cache=cache.view(6), sampling=SamplingSettings(), n=5
    )
    sequence = SequenceState(
        request=a_request([1], 9), trace=RequestTrace(), submitted=0.0, deadline=1.0
    )
    return InFlight(
        drafting=Guards(32).begin(drafter, [wish]),
        sequences=[sequence],
        wishes=[wish],
        routed=range(N_LAYERS),
        pace=pace or Pace(),
        monotonic=clock,
    )


def walk_of(clock: Clock, record: PassRecord, trips_s: list[float]) -> Walk:
    def layers() -> Layers:
        for trip_s in trips_s:
            pending = Away(clock, clock() + trip_s, record)
            yield pending
            pending.finish()
        return [np.ones((1, 2), np.float32)]

    return Walk(layers())


def slow(clock: Clock, step_s: float) -> ScriptedDraft:
    """Return a drafter that takes its time for each token."""

    class Slow(ScriptedDraft):
        def begin(self, wishes):
            drafting = super().begin(wishes)
            advance = drafting.advance

            def takes_time() -> bool:
                clock.now += step_s
                return advance()

            drafting.advance = takes_time
            return drafting

    return Slow(lambda wish: list(range(1, 6)))


def test_it_drafts_while_workers_are_asked() -> None:
    clock, record = Clock(), PassRecord(monotonic=lambda: 0.0)
    own = in_flight_of(slow(clock, 0.01), a_cache(), clock)
    logits = run_walk(walk_of(clock, record, [0.035] * 3), own, record)
    assert len(logits) == 1
    ((_, draft),) = own.drafts()
    assert draft.tokens == (1, 2, 3, 4, 5)
    # The first layer hid as many steps as fit and one that was not known to be longer.
    assert clock.now == pytest.approx(0.04 + 0.035 + 0.035)
    assert own.spent_s == pytest.approx(0.06)


def test_answers_that_are_quicker_than_a_draft_are_not_held_up() -> None:
    clock, record, pace = Clock(), PassRecord(monotonic=lambda: 0.0), Pace()
    for _ in range(10):
        own = in_flight_of(slow(clock, 0.01), a_cache(), clock, pace)
        run_walk(walk_of(clock, record, [0.001] * 3), own, record)
    # One step was needed to learn how long it takes.
    assert clock.now == pytest.approx(0.01 + 29 * 0.001)


def test_what_is_ready_is_not_waited_for() -> None:
    clock, record = Clock(), PassRecord(monotonic=lambda: 0.0)
    drafter = slow(clock, 0.01)
    own = in_flight_of(drafter, a_cache(), clock)
    run_walk(walk_of(clock, record, [0.0] * 3), own, record)
    assert drafter.n_steps == 0
    assert own.drafts() == []


@pytest.mark.parametrize("n_passed", [1, 2, 3])
def test_what_verification_wrote_is_put_back(n_passed: int) -> None:
    cache = a_cache()
    for number, layer in enumerate(cache.layers):
        for array, place in layer.at(6):
            array[place] = number + 1.0  # by verification, where it has come so far

    def guess(wish: DraftWish) -> list[int]:
        for layer in wish.cache.layers:
            for position in (6, 7):
                for array, place in layer.at(position):
                    array[place] = -1.0
        return [1, 2, 3]

    own = in_flight_of(ScriptedDraft(guess), cache, Clock())
    assert own.advance(n_passed)
    for number, layer in enumerate(cache.layers):
        is_verified = number < n_passed
        for array, place in layer.at(6):
            assert np.all(array[place] == (number + 1.0 if is_verified else -1.0))
        for array, place in layer.at(7):
            assert np.all(array[place] == -1.0)


def test_a_pace_knows_nothing_at_first() -> None:
    pace = Pace()
    assert pace.pays(0.0)
    pace.drafted(0.01)
    assert pace.pays(5.0)
    pace.tripped(0.03)
    assert pace.pays(0.02)
    assert not pace.pays(0.021)
    for _ in range(50):
        pace.tripped(0.001)
    assert not pace.pays(0.0)
