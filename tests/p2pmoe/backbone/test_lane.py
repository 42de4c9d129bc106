"""A lane's steps: chunks, ends, cancellation, deadlines, isolation, parking."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pmoe.backbone.generation import FinishReason, StepFigures, TierCalls
from p2pmoe.backbone.lane_events import DeadlinePassed, StepFailed
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.config import MissingPolicy
from p2pmoe.errors import Cancelled, ExpertsUnavailable, NotFinite, RequestFailed
from p2pmoe.model.sampler import SamplingSettings, log_probabilities
from p2pmoe.model.step import SequencePart
from tests.support.lanes import LaneRig, a_request, limits_of
from tests.support.recalling_model import RecallingModel, _logits, cold_run

Parts = Sequence[SequencePart]


def shapes(model: RecallingModel) -> list[list[int]]:
    """Record the rows of each part of each step from now on."""
    seen: list[list[int]] = []
    before = model.on_step

    def on_step(parts: Parts) -> None:
        seen.append([len(part.tokens) for part in parts])
        before(parts)

    model.on_step = on_step
    return seen


def failing(error: Exception, token: int) -> Callable[[Parts], None]:
    """Raise in every step that runs this token; rows are named if the error has any."""

    def on_step(parts: Parts) -> None:
        tokens = [t for part in parts for t in part.tokens]
        if token in tokens:
            if isinstance(error, ExpertsUnavailable | NotFinite):
                raise type(error)(str(error), rows=[tokens.index(token)])
            raise error

    return on_step


# Chunks and ends.


def test_the_prompt_goes_in_chunks_and_the_last_token_is_not_run() -> None:
    rig = LaneRig(RecallingModel(), limits_of(chunk_tokens=2))
    seen = shapes(rig.model)
    sequence = rig.submit(a_request([1, 2, 3, 4, 5], 4))
    rig.run()
    assert seen == [[2], [2], [1], [1], [1], [1]]
    assert rig.tokens(sequence) == cold_run(sequence.request)
    assert rig.cause(sequence) is FinishReason.LENGTH


@pytest.mark.parametrize("max_tokens", [1, 3, 8])
def test_b18_exactly_max_tokens(max_tokens: int) -> None:
    rig = LaneRig(RecallingModel())
    sequence = rig.submit(a_request([1, 2], max_tokens))
    rig.run()
    assert len(rig.tokens(sequence)) == max_tokens


def test_b18_a_stop_token_ends_and_is_counted() -> None:
    tokens = cold_run(a_request([1, 2], 9))
    rig = LaneRig(RecallingModel())
    stop = tokens[2]
    sequence = rig.submit(a_request([1, 2], 9, stop_ids=frozenset({stop})))
    rig.run()
    assert rig.cause(sequence) is FinishReason.STOP
    assert rig.tokens(sequence) == tokens[: tokens.index(stop) + 1]


def test_all_sequences_go_into_one_step() -> None:
    rig = LaneRig(RecallingModel(), limits_of(chunk_tokens=8))
    seen = shapes(rig.model)
    for i in range(3):
        rig.submit(a_request([i], 3))
    rig.step()
    rig.submit(a_request(range(20), 2))
    rig.step()
    assert seen == [[1, 1, 1], [1, 1, 1, 8]]


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_a_drawn_token_depends_on_seed_and_position_alone(chunk: int) -> None:
    sampling = SamplingSettings(temperature=50.0, seed=3, frequency_penalty=1.0)
    request = a_request(range(20), 30, sampling=sampling)
    rig = LaneRig(RecallingModel(), limits_of(chunk_tokens=chunk))
    for i in range(3):
        rig.submit(a_request([i, 5], 40))
    sequence = rig.submit(request)
    rig.run()
    assert rig.tokens(sequence) == cold_run(request)


def test_times_are_told_apart() -> None:
    rig = LaneRig(RecallingModel(), limits_of(chunk_tokens=4))

    def work(parts: Parts) -> None:
        rig.now += 3.0 if len(parts[0].tokens) > 1 else 0.5

    rig.model.on_step = work
    sequence = rig.submit(a_request(range(8), 3))
    rig.now += 7.0
    rig.run()
    trace = sequence.trace
    assert (trace.queued_s, trace.prefill_s, trace.decode_s) == (7.0, 6.0, 1.0)
    assert trace.decoding


# Cancellation and deadlines.


def test_b20_a_cancelled_request_stops_within_one_step() -> None:
    rig = LaneRig(RecallingModel())
    leaves, stays = (rig.submit(a_request([i], 30)) for i in (1, 2))
    for _ in range(3):
        rig.step()
    seen = shapes(rig.model)
    leaves.trace.cancelled = True
    rig.run()
    assert len(seen[0]) == 1
    assert isinstance(rig.cause(leaves), Cancelled)
    assert rig.tokens(stays) == cold_run(stays.request)


def test_b20_in_prefill_too() -> None:
    rig = LaneRig(RecallingModel(), limits_of(chunk_tokens=4))
    leaves = rig.submit(a_request(range(12), 4))
    rig.model.on_step = lambda parts: setattr(leaves.trace, "cancelled", True)
    rig.run()
    assert rig.model.n_steps == 1
    assert rig.tokens(leaves) == []
    assert rig.schedule.pool.granted_bytes == 0


def test_a_deadline_ends_it_with_an_error() -> None:
    rig = LaneRig(RecallingModel(), deadline_s=4.5)

    def dawdle(parts: Parts) -> None:
        rig.now += 1.0

    rig.model.on_step = dawdle
    sequence = rig.submit(a_request([1], 99))
    rig.run()
    assert len(rig.tokens(sequence)) == 5
    cause = rig.cause(sequence)
    assert isinstance(cause, DeadlinePassed)
    assert "deadline passed after 5 tokens" in str(cause)


def test_a_deadline_in_the_queue_or_in_prefill_is_seen_too() -> None:
    rig = LaneRig(RecallingModel(), limits_of(max_batch=1, chunk_tokens=4))
    asked = [rig.submit(a_request(range(12), 4)) for _ in range(2)]
    rig.model.on_step = lambda parts: setattr(rig, "now", rig.now + 1e6)
    rig.run()
    assert rig.model.n_steps == 1
    assert all(isinstance(rig.cause(s), DeadlinePassed) for s in asked)


def test_a_clock_that_is_not_a_number_ends_a_request() -> None:
    rig = LaneRig(RecallingModel())
    sequence = rig.submit(a_request([1], 4))
    rig.now = float("nan")
    rig.run()
    assert isinstance(rig.cause(sequence), DeadlinePassed)


def test_one_requests_deadline_does_not_end_another() -> None:
    rig = LaneRig(RecallingModel(), deadline_s=5.0)
    hurried = rig.submit(a_request([1], 50))
    rig.deadline_s = 500.0
    calm = rig.submit(a_request([2], 50))

    def late(parts: Parts) -> None:
        rig.now += 1.0
        if len(parts) == 2 and rig.now > 1004:
            rig.now += 1.0
            raise ExpertsUnavailable("nobody answered in time", rows=[0, 1])

    rig.model.on_step = late
    rig.run()
    assert isinstance(rig.cause(hurried), ExpertsUnavailable)
    assert rig.tokens(calm) == cold_run(calm.request)


# Isolation (faults B11, B23).


@pytest.mark.parametrize(
    "error", [NotFinite("expert 7"), ExpertsUnavailable("expert 7 is nowhere")]
)
def test_an_error_that_names_rows_ends_their_sequences_alone(error: Exception) -> None:
    rig = LaneRig(RecallingModel())
    asked = [rig.submit(a_request([i], 20)) for i in (0, 1, 2, 31)]
    rig.model.on_step = failing(error, 31)
    rig.run()
    whole = [cold_run(s.request) for s in asked]
    for sequence, tokens in zip(asked, whole, strict=True):
        fails = 31 in [*sequence.request.prompt_ids, *tokens[:-1]]
        assert isinstance(rig.cause(sequence), type(error)) == fails
        if not fails:
            assert rig.tokens(sequence) == tokens
    assert rig.tokens(asked[3]) == []
    assert len([e for e in rig.events if isinstance(e, StepFailed)]) >= 1


@pytest.mark.parametrize("error", [ZeroDivisionError("x / 0"), MemoryError()])
def test_an_error_that_names_nothing_is_found_by_running_alone(
    error: Exception,
) -> None:
    rig = LaneRig(RecallingModel())
    asked = [rig.submit(a_request([i], 12)) for i in (0, 1, 2, 31)]
    rig.model.on_step = failing(error, 31)
    rig.run()
    whole = [cold_run(s.request) for s in asked]
    for sequence, tokens in zip(asked, whole, strict=True):
        fails = 31 in [*sequence.request.prompt_ids, *tokens[:-1]]
        assert (rig.cause(sequence) is error) == fails
        if not fails:
            assert rig.tokens(sequence) == tokens
            assert not sequence.is_suspect


def test_a_model_that_always_fails_ends_requests_one_by_one() -> None:
    rig = LaneRig(RecallingModel())

    def fails(parts: Parts) -> None:
        raise ValueError("always")

    rig.model.on_step = fails
    asked = [rig.submit(a_request([i], 12)) for i in range(5)]
    rig.run()
    assert all(isinstance(rig.cause(s), ValueError) for s in asked)
    rig.model.on_step = lambda parts: None
    good = rig.submit(a_request([1], 3))
    rig.run()
    assert rig.tokens(good) == cold_run(good.request)


def test_a_cache_that_cannot_be_had_ends_its_sequence() -> None:
    rig = LaneRig(RecallingModel())
    new_cache = rig.model.new_cache

    def scarce(n_tokens: int, *, limit: int | None = None) -> object:
        if n_tokens > 200:
            raise MemoryError
        return new_cache(n_tokens, limit=limit)

    rig.model.new_cache = scarce
    large, small = rig.submit(a_request(range(300), 3)), rig.submit(a_request([1], 3))
    rig.run()
    assert isinstance(rig.cause(large), MemoryError)
    assert rig.tokens(small) == cold_run(small.request)
    assert rig.schedule.pool.granted_bytes == 0


# Parking.


class Absent:
    """An expert that token 31 needs and nobody holds, until it `is_back`."""

    def __init__(self, rig: LaneRig) -> None:
        self.is_back = False
        self.n_waits = 0
        self.rig = rig
        rig.model.on_step = self

    def __call__(self, parts: Parts) -> None:
        tokens = [t for part in parts for t in part.tokens]
        if 31 in tokens and not self.is_back:
            self.n_waits += 1
            self.rig.now += self.rig.patience[-1]
            raise ExpertsUnavailable("nobody", rows=[tokens.index(31)])


def waiting_rig() -> tuple[LaneRig, Absent]:
    rig = LaneRig(
        RecallingModel(), missing=MissingPolicy.WAIT, limits=limits_of(park_after_s=1.0)
    )
    return rig, Absent(rig)


def keeps_clear(prompt: Sequence[int], n: int) -> bool:
    return 31 not in cold_run(a_request(prompt, n))


CLEAR = next(i for i in range(31) if keeps_clear([i, 3], 30))


def test_a_sequence_whose_expert_nobody_holds_is_parked_and_others_go_on() -> None:
    rig, absent = waiting_rig()
    stuck = rig.submit(a_request([31], 3))
    free = rig.submit(a_request([CLEAR, 3], 30))
    while rig.cause(free) is None:
        rig.step()
        rig.now += 0.05
    assert rig.tokens(free) == cold_run(free.request)
    assert rig.cause(stuck) is None
    assert absent.n_waits == 2  # at first, and a second after that
    assert rig.patience[0] == 1.0
    assert rig.patience[1:].count(0.1) == len(rig.patience) - 1
    absent.is_back = True
    rig.now += 1.0
    rig.run()
    assert rig.tokens(stuck) == cold_run(stuck.request)


def test_parked_sequences_are_tried_together_and_those_that_can_go_on() -> None:
    rig, _ = waiting_rig()
    lacking = {0, 1, 2}  # prompts that begin so need what nobody holds

    def on_step(parts: Parts) -> None:
        rows, first = [], 0
        for part in parts:
            if part.cache.length == 0 and part.tokens[0] in lacking:
                rows.append(first)
            first += len(part.tokens)
        rig.now += 0.01
        if rows:
            rig.now += rig.patience[-1]
            raise ExpertsUnavailable("nobody", rows=rows)

    rig.model.on_step = on_step
    stuck = [rig.submit(a_request([i], 4)) for i in range(3)]
    seen = shapes(rig.model)
    for _ in range(5):
        rig.step()
        rig.now += 0.02
    assert seen == [[1, 1, 1]] * 5
    lacking.discard(1)
    lacking.discard(2)
    while any(rig.cause(s) is None for s in stuck[1:]):
        rig.step()
    assert rig.cause(stuck[0]) is None
    lacking.clear()
    rig.now += 1.0
    rig.run()
    assert all(rig.tokens(s) == cold_run(s.request) for s in stuck)


def test_a_lone_sequence_waits_on_with_patience() -> None:
    rig, absent = waiting_rig()
    stuck = rig.submit(a_request([31], 3))
    for _ in range(5):
        assert rig.step()
        assert not rig.step()  # no more than some tries a second, whatever happens
        rig.now += 0.02
    assert rig.patience == [1.0] * 5
    absent.is_back = True
    rig.run()
    assert rig.tokens(stuck) == cold_run(stuck.request)


def test_a_parked_sequence_ends_at_its_deadline_with_what_it_lacked() -> None:
    rig, _ = waiting_rig()
    rig.deadline_s = 10.0
    stuck = rig.submit(a_request([31], 3))
    while rig.cause(stuck) is None:
        rig.step()
        rig.now += 0.02
    assert isinstance(rig.cause(stuck), ExpertsUnavailable)
    assert rig.now - 1000.0 <= 11.0


def test_a_parked_sequence_can_be_cancelled() -> None:
    rig, _ = waiting_rig()
    stuck = rig.submit(a_request([31], 3))
    rig.step()
    stuck.trace.cancelled = True
    rig.run()
    assert isinstance(rig.cause(stuck), Cancelled)


# What is told beside the tokens.


def test_log_probabilities_are_those_of_the_models_own_logits() -> None:
    rig = LaneRig(RecallingModel(), limits_of(chunk_tokens=3))
    sampling = SamplingSettings(temperature=0.0, presence_penalty=2.0)
    request = a_request(
        range(8), 5, n_top_logprobs=2, scores_prompt=True, sampling=sampling
    )
    sequence = rig.submit(request)
    rig.run()
    tokens = [*request.prompt_ids, *rig.tokens(sequence)]
    told = [
        *sequence.prompt_logprobs,
        *(own for step in rig.steps(sequence) for own in step.logprobs),
    ]
    assert [own.token for own in told] == tokens
    assert told[0].logprob is None
    for place, own in enumerate(told[1:], start=1):
        scores = log_probabilities(np.array(_logits(tokens[:place]), np.float32))
        assert own.logprob == scores[tokens[place]]
        best = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:2]
        assert own.top == tuple((i, scores[i]) for i in best)


def test_a_preempted_prompt_is_scored_once() -> None:
    rig = LaneRig(RecallingModel(), limits_of(chunk_tokens=3))
    request = a_request(range(8), 5, scores_prompt=True)
    sequence = rig.submit(request)
    for _ in range(2):
        rig.step()
    rig.schedule._preempt(sequence)
    rig.run()
    assert [own.token for own in sequence.prompt_logprobs] == list(range(8))
    assert rig.tokens(sequence) == cold_run(request)


class Alternating:
    """Allows even and odd tokens in turn."""

    def __init__(self) -> None:
        self.n = 0

    def allowed(self) -> np.ndarray:
        if self.n > 50:
            raise RequestFailed("the grammar is at its end")
        return np.arange(32) % 2 == self.n % 2

    def accept(self, token: int) -> None:
        assert token % 2 == self.n % 2
        self.n += 1


def test_a_constraint_masks_before_sampling_and_hears_each_token() -> None:
    rig = LaneRig(RecallingModel())
    hot = SamplingSettings(temperature=2.0, seed=5, top_p=0.9)
    asked = [
        rig.submit(a_request([3], 40, constraint=Alternating, sampling=hot)),
        rig.submit(a_request([3], 80, constraint=Alternating)),
        rig.submit(a_request([4], 80)),
    ]
    rig.run()
    for sequence in asked[:2]:
        assert all(t % 2 == i % 2 for i, t in enumerate(rig.tokens(sequence)))
    assert rig.cause(asked[0]) is FinishReason.LENGTH
    assert isinstance(rig.cause(asked[1]), RequestFailed)  # and only this one fails
    assert rig.tokens(asked[2]) == cold_run(asked[2].request)


def test_figures_and_hashes_go_with_the_token_they_led_to() -> None:
    rig = LaneRig(RecallingModel(), limits_of(chunk_tokens=4))
    plain = rig.submit(a_request([5], 4))
    told = rig.submit(a_request(range(10), 3, explains=True, traces=True))
    rig.run()
    assert all(step.figures is None for step in rig.steps(plain))
    figures = [step.figures for step in rig.steps(told)]
    assert all(isinstance(own, StepFigures) for own in figures)
    assert figures[0].calls == TierCalls()
    assert [own.n_rows for own in figures] == [5, 2, 1]
    assert told.trace.traces
    assert told.trace.position == 11


def test_what_it_counts() -> None:
    rig = LaneRig(RecallingModel())
    for i in range(3):
        rig.submit(a_request([i], 2))
    rig.run()
    (lane,) = rig.lanes
    assert (lane.n_steps, lane.n_rows, lane.n_last) == (2, 6, 3)
    assert lane.under_way == ()


def test_nothing_is_reported_for_a_sequence_twice() -> None:
    rig = LaneRig(RecallingModel())
    ended = [rig.submit(a_request([i], 1 + i)) for i in range(4)]
    rig.run()
    assert [rig.cause(s) for s in ended] == [FinishReason.LENGTH] * 4


def test_a_step_that_read_too_many_experts_makes_the_next_ones_smaller() -> None:
    limits = limits_of(max_cold_experts=100, max_batch=16)
    rig = LaneRig(RecallingModel(), limits)

    def experts(step: StepTrace) -> None:
        step.n_cold = 40 * step.n_rows

    rig.experts = experts
    asked = [rig.submit(a_request([i], 6)) for i in range(8)]
    seen = shapes(rig.model)
    rig.run()
    assert len(seen[0]) == 8
    assert {len(rows) for rows in seen[1:]} <= {1, 2, 3}
    most = max(s.n_waited for s in asked)
    assert most <= 8  # they take turns
    assert all(rig.tokens(s) == cold_run(s.request) for s in asked)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 31), min_size=1, max_size=40), st.integers(1, 40)
        ),
        min_size=1,
        max_size=8,
    ),
    st.sets(st.integers(0, 31), max_size=3),
    st.booleans(),
    st.integers(1, 2),
    st.integers(200, 1000),
)
def test_b11_a_failure_ends_those_that_met_it_and_changes_nothing_for_others(
    asked: list[tuple[list[int], int]],
    bad: set[int],
    names_rows: bool,
    n_lanes: int,
    n_positions: int,
) -> None:
    limits = limits_of(n_lanes=n_lanes, kv_bytes=10 * n_positions, chunk_tokens=16)
    rig = LaneRig(RecallingModel(), limits)

    def on_step(parts: Parts) -> None:
        tokens = [t for part in parts for t in part.tokens]
        rows = [row for row, token in enumerate(tokens) if token in bad]
        if rows:
            raise NotFinite("bad", rows=rows) if names_rows else ValueError("bad")

    rig.model.on_step = on_step
    found = [rig.submit(a_request(*own)) for own in asked]
    rig.run()
    for sequence in found:
        whole, prompt = cold_run(sequence.request), sequence.request.prompt_ids
        n_good = 0
        if not bad & set(prompt):
            run = [i for i, token in enumerate(whole[:-1]) if token in bad]
            n_good = run[0] + 1 if run else len(whole)
        assert rig.tokens(sequence) == whole[:n_good]
        ended = rig.cause(sequence)
        assert isinstance(ended, FinishReason) == (n_good == len(whole))
    assert rig.schedule.pool.granted_bytes == rig.schedule.n_running == 0
