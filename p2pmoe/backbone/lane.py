"""One request on a decode thread: prefill in chunks, then token after token.

A plain function of its job: it never awaits and never touches the event loop but
through `emit`. Between any two steps, and at every layer (scattered.py), it looks
whether the request was cancelled or is overdue. The last token drawn is not run
through the model: nobody would read what follows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.generation import FinishReason, GenerationRequest
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.errors import Cancelled, RequestFailed
from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.model import Model
from p2pmoe.model.sampler import sample

__all__ = ["DeadlinePassed", "LaneJob", "decode"]


class DeadlinePassed(RequestFailed):
    """The request took longer than it may."""

    advice = "ask for fewer tokens, or try again when more workers are there"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneJob:
    """What a decode thread needs to run one request."""

    model: Model
    experts: Callable[[StepTrace, float], ExpertCaller]
    request: GenerationRequest
    trace: RequestTrace
    emit: Callable[[int], None]  # called on the decode thread with each token
    monotonic: Callable[[], float]
    deadline: float
    chunk_tokens: int
    began: Callable[[StepTrace], None] = lambda _: None  # called with each step
    produced: list[int] = field(default_factory=list)


def decode(job: LaneJob) -> FinishReason:
    """Run the request to its end; tokens leave through `job.emit`.

    Raises:
        RequestFailed: cancelled, overdue, or an expert could not be had.
    """
    request = job.request
    cache = job.model.new_cache(len(request.prompt_ids) + request.max_tokens)
    start = job.monotonic()
    logits = None
    for first in range(0, len(request.prompt_ids), job.chunk_tokens):
        _go_on(job)
        chunk = request.prompt_ids[first : first + job.chunk_tokens]
        logits = _step(job, chunk, cache)
    if logits is None:
        raise RequestFailed("the prompt is empty")
    decode_start = job.monotonic()
    job.trace.prefill_s = decode_start - start
    job.trace.decoding = True
    while True:
        history = [*request.prompt_ids, *job.produced]
        token = sample(logits[-1], request.sampling, history, len(history))
        job.produced.append(token)
        job.trace.decode_s = job.monotonic() - decode_start
        job.emit(token)
        if token in request.stop_ids:
            return FinishReason.STOP
        if len(job.produced) >= request.max_tokens:
            return FinishReason.LENGTH
        _go_on(job)
        logits = _step(job, [token], cache)


def _step(job: LaneJob, tokens: Sequence[int], cache: KvCache) -> Floats:
    step = StepTrace.of(job.trace, len(tokens))
    job.began(step)
    try:
        return job.model.forward(tokens, cache, job.experts(step, job.deadline))
    finally:
        step.end()


def _go_on(job: LaneJob) -> None:
    if job.trace.cancelled:
        raise Cancelled("the request was cancelled")
    if not job.monotonic() < job.deadline:
        raise DeadlinePassed(
            f"the request's deadline passed after {len(job.produced)} tokens"
        )
