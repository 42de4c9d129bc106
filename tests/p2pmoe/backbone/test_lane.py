"""One request on its thread: chunks, ends, cancellation, deadlines."""

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest

from p2pmoe.backbone.generation import FinishReason, GenerationRequest
from p2pmoe.backbone.lane import DeadlinePassed, LaneJob, decode
from p2pmoe.backbone.trace import RequestTrace
from p2pmoe.errors import Cancelled, RequestFailed
from p2pmoe.model.sampler import SamplingSettings

N_VOCAB = 16


@dataclass
class CountingModel:
    """Says t + 1 after token t; remembers the steps it was asked for."""

    steps: list[tuple[int, ...]] = field(default_factory=list)
    description: object = None

    def new_cache(self, n_tokens: int) -> int:
        return n_tokens

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
        experts=None,
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
