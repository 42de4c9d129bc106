"""One request on its thread: chunks, ends, cancellation, deadlines."""

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest

from p2pmoe.backbone.generation import FinishReason, GenerationRequest
from p2pmoe.backbone.lane import DeadlinePassed, LaneJob, decode
from p2pmoe.backbone.trace import RequestTrace
from p2pmoe.errors import Cancelled, RequestFailed
from p2pmoe.model.sampler import SamplingSettings, sample
from p2pmoe.model.step import SequencePart
from tests.support.scripted_model import (
    N_LAYERS,
    TOP_K,
    CountingExperts,
    ScriptedModel,
    ask,
)

N_VOCAB = 16


@dataclass
class CountingModel:
    """Says t + 1 after token t; remembers the steps it was asked for."""

    steps: list[tuple[int, ...]] = field(default_factory=list)
    description: object = None

    def new_cache(self, n_tokens: int, *, limit: int | None = None) -> int:
        return n_tokens

    def step(self, parts: list[SequencePart], experts: object) -> list[np.ndarray]:
        return [self.forward(part.tokens, part.cache, experts) for part in parts]

    def forward(self, tokens: object, cache: object, experts: object) -> np.ndarray:
        self.steps.append(tuple(tokens))
        logits = np.zeros((1, N_VOCAB), np.float32)
        logits[0, (self.steps[-1][-1] + 1) % N_VOCAB] = 1.0
        return logits


def job(model: CountingModel, **changes: object) -> LaneJob:
    values: dict[str, object] = {
        "prompt_ids": (1, 2, 3, 4, 5),
        "sampling": SamplingSettings(temperature=0.0),
        "max_tokens": 4,
    }
    values.update({k: v for k, v in changes.items() if k in {"stop_ids", "max_tokens"}})
    clock = itertools.count()
    return LaneJob(
        model=model,
        experts=lambda step, deadline: None,
        request=GenerationRequest(**values),
        trace=changes.get("trace", RequestTrace()),
        emit=changes.get("emit", lambda token: None),
        monotonic=lambda: float(next(clock)),
        deadline=changes.get("deadline", 1e9),
        chunk_tokens=2,
    )


def test_the_prompt_goes_in_chunks_and_the_last_token_is_not_run() -> None:
    model, out = CountingModel(), []
    assert decode(job(model, emit=out.append)) is FinishReason.LENGTH
    assert out == [6, 7, 8, 9]
    assert model.steps == [(1, 2), (3, 4), (5,), (6,), (7,), (8,)]


@pytest.mark.parametrize("max_tokens", [1, 3, 8])
def test_b18_exactly_max_tokens(max_tokens: int) -> None:
    out = []
    decode(job(CountingModel(), emit=out.append, max_tokens=max_tokens))
    assert len(out) == max_tokens


def test_b18_a_stop_token_ends_and_is_counted() -> None:
    out = []
    reason = decode(
        job(CountingModel(), emit=out.append, stop_ids=frozenset({8}), max_tokens=9)
    )
    assert reason is FinishReason.STOP
    assert out == [6, 7, 8]


def test_b20_a_cancelled_request_stops_within_one_step() -> None:
    model, trace = CountingModel(), RequestTrace()

    def emit(token: int) -> None:
        trace.cancelled = token == 7

    with pytest.raises(Cancelled):
        decode(job(model, emit=emit, trace=trace, max_tokens=100))
    assert model.steps[-1] == (6,)


def test_b20_in_prefill_too() -> None:
    trace = RequestTrace()
    trace.cancelled = True
    model = CountingModel()
    with pytest.raises(Cancelled):
        decode(job(model, trace=trace))
    assert model.steps == []


def test_a_deadline_ends_it_with_an_error() -> None:
    out = []
    with pytest.raises(DeadlinePassed, match="deadline passed after 4 tokens"):
        decode(job(CountingModel(), emit=out.append, deadline=10.5, max_tokens=99))
    assert len(out) == 4


def test_an_empty_prompt_is_refused() -> None:
    work = job(CountingModel())
    empty = LaneJob(
        **{
            name: getattr(work, name)
            for name in ("model", "experts", "trace", "emit", "monotonic", "deadline")
        },
        chunk_tokens=2,
        request=GenerationRequest(
            prompt_ids=(), sampling=work.request.sampling, max_tokens=1
        ),
    )
    with pytest.raises(RequestFailed):
        decode(empty)


STOP = 9


class Lane:
    """A job over a scripted model, and a clock that a test moves."""

    def __init__(
        self, script: list[int], request: GenerationRequest, chunk_tokens: int = 64
    ) -> None:
        self.now = 100.0
        self.emitted: list[int] = []
        self.experts = CountingExperts()
        self.model = ScriptedModel(script, n_prompt=len(request.prompt_ids))
        self.job = LaneJob(
            model=self.model,
            experts=lambda step, deadline: self.experts,
            request=request,
            trace=self.experts.trace,
            emit=self.emitted.append,
            monotonic=lambda: self.now,
            deadline=160.0,
            chunk_tokens=chunk_tokens,
        )


@pytest.mark.parametrize(
    ("script", "max_tokens", "emitted", "reason"),
    [
        ([10, 11, STOP, 20, 21], 5, [10, 11, STOP], FinishReason.STOP),
        ([10, 11, 12, 13, 14, STOP], 5, [10, 11, 12, 13, 14], FinishReason.LENGTH),
        ([10, 11, STOP], 3, [10, 11, STOP], FinishReason.STOP),  # both at once
        ([STOP, 10], 4, [STOP], FinishReason.STOP),
        ([10, 11], 1, [10], FinishReason.LENGTH),
    ],
)
def test_b18_a_stop_token_comes_before_the_cap(
    script: list[int], max_tokens: int, emitted: list[int], reason: FinishReason
) -> None:
    lane = Lane(script, ask(max_tokens, stop=frozenset({STOP})))
    assert decode(lane.job) is reason
    assert lane.emitted == emitted
    assert len(lane.model.steps) == len(emitted)  # nothing is computed past the end
    assert lane.experts.n_calls == len(emitted) * N_LAYERS * TOP_K


def test_the_chunk_size_changes_no_token() -> None:
    told = []
    for chunk_tokens in (1, 3, 64):
        lane = Lane([5, 6, 7], ask(3, n_prompt=7), chunk_tokens)
        decode(lane.job)
        told.append(lane.emitted)
    assert told == [[5, 6, 7]] * 3


def test_b20_a_request_cancelled_in_prefill_runs_no_further_layer() -> None:
    lane = Lane([5], ask(4, n_prompt=12), 4)

    def leave(step: int) -> None:
        lane.job.trace.cancelled = step == 2

    lane.model.on_step = leave
    with pytest.raises(Cancelled):
        decode(lane.job)
    assert len(lane.model.steps) == 2
    assert lane.experts.n_calls == N_LAYERS * TOP_K  # of the first chunk alone
    assert lane.emitted == []


def test_a_deadline_in_prefill_is_seen_before_the_next_chunk() -> None:
    lane = Lane([5], ask(1, n_prompt=12), 4)

    def dawdle(step: int) -> None:
        lane.now += 60.0 * step

    lane.model.on_step = dawdle
    with pytest.raises(DeadlinePassed, match="after 0 tokens"):
        decode(lane.job)
    assert len(lane.model.steps) == 1


def test_a_clock_that_is_not_a_number_ends_a_request() -> None:
    lane = Lane([5], ask(1))
    lane.now = float("nan")
    with pytest.raises(DeadlinePassed):
        decode(lane.job)


def test_times_are_told_apart() -> None:
    lane = Lane([5, 6, 7], ask(3, n_prompt=8), 4)

    def work(step: int) -> None:
        lane.now += 3.0 if step <= 2 else 0.5

    lane.model.on_step = work
    decode(lane.job)
    assert lane.job.trace.prefill_s == 6.0
    assert lane.job.trace.decode_s == 1.0
    assert lane.job.trace.decoding


def test_penalties_see_the_prompt_and_what_was_said() -> None:
    settings = SamplingSettings(temperature=0.0, presence_penalty=2.0)
    request = GenerationRequest(prompt_ids=(5, 1), sampling=settings, max_tokens=2)
    lane = Lane([5, 5], request)
    decode(lane.job)
    assert len({5, 1, *lane.emitted}) == 4


def test_a_drawn_token_depends_on_seed_and_position_alone() -> None:
    settings = SamplingSettings(temperature=50.0, seed=3)
    request = GenerationRequest(prompt_ids=(1, 2, 3), sampling=settings, max_tokens=6)
    lanes = [Lane([5] * 6, request, chunk_tokens) for chunk_tokens in (1, 64)]
    for lane in lanes:
        decode(lane.job)
    assert lanes[0].emitted == lanes[1].emitted
    model = lanes[0].model
    logits = model.forward([1, 2, 3], model.new_cache(4), CountingExperts())[-1]
    assert lanes[0].emitted[0] == sample(logits, settings, (1, 2, 3), 3)
