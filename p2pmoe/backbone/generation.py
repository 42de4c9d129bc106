"""The seam between the API and the engine: values and two protocols, no behaviour.

The engine generates token ids; the API turns text into ids and back. Rules:

- `Generator.generate` is an async context manager. Entering it admits the request
  (and may wait in the queue); leaving it by any way, a cancellation included, frees
  its sequence and stops its expert calls within one step. So one `async with` is one
  request, and its cancel scope is the caller's.
- Iterating over the run yields each accepted block of tokens, in order, stop token
  included. A block may hold several tokens (speculation) and may run past a stop
  token or `max_tokens`: whoever consumes it cuts it with `p2pmoe.text.stopping`, by
  which the engine also decides when to end.
- Iteration ends normally only if the generation is complete. Everything else raises
  `GenerationFailed`, or another `RequestFailed`, which the API tells by its class; a
  failure is never a normal end (fault B23).
- `run.end()` may be asked at any time, in mid-run too: the figures so far.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from p2pmoe.errors import RequestFailed
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.passes.values import PassTrace
from p2pmoe.text.stopping import FinishReason

__all__ = [
    "FailureKind",
    "FinishReason",
    "GenerationEnd",
    "GenerationFailed",
    "GenerationRequest",
    "GenerationRun",
    "GenerationStep",
    "Generator",
    "Phase",
    "Readiness",
    "StepFigures",
    "TierCalls",
    "Timings",
    "TokenConstraint",
    "TokenLogprobs",
    "TracedHash",
    "Usage",
]


class FailureKind(StrEnum):
    """What went wrong, as `error.type` of the API tells it."""

    UPSTREAM_LOST = "upstream_lost"  # weights that are nowhere any more, or too late
    NOT_READY = "not_ready"  # weights or coverage are not there yet
    OVERLOADED = "overloaded"  # the queue or the memory budget is full; 429
    DEADLINE = "deadline_exceeded"
    ARITHMETIC = "arithmetic_error"  # non-finite here too (design, 02)
    INTERNAL = "internal_error"


class GenerationFailed(RequestFailed):
    """The engine gave a request up; what was delivered before stays delivered."""

    def __init__(
        self, kind: FailureKind, reason: str, *, retry_s: float | None = None
    ) -> None:
        """Say which kind of failure, and why in one lower-case line without paths.

        `retry_s` is after how many seconds another try may succeed, if that is known.
        """
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.retry_s = retry_s


class TokenConstraint(Protocol):
    """What tokens may come next in one sequence; a grammar, as far as it has come."""

    def allowed(self) -> npt.NDArray[np.bool_]:
        """Return bool [n_vocab]: which tokens may come next; never none of them."""
        ...

    def accept(self, token: int) -> None:
        """Take the token that came; it was allowed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One sequence to generate.

    `prompt_ids` is the whole prompt, BOS included, never empty; `max_tokens` >= 1 is
    already clamped to what the context leaves; `stop_ids` end the generation (EOS
    and end-of-turn ids). Seeds and filters are in `sampling`.

    `client` names who asks: requests of different clients get equal shares, and what is
    kept of one's prompts is reused for no other. `n_top_logprobs` asks for the log
    probability of each token and so many alternatives, None for none; `scores_prompt`
    for those of the prompt's tokens too. `constraint` makes the rule for one sequence.
    With `explains` each step carries its figures, with `traces` its hashes too.
    """

    prompt_ids: tuple[int, ...]
    sampling: SamplingSettings
    max_tokens: int
    stop_ids: frozenset[int] = frozenset()
    client: str = ""
    n_top_logprobs: int | None = None
    scores_prompt: bool = False
    constraint: Callable[[], TokenConstraint] | None = None
    explains: bool = False
    traces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprobs:
    """A token's log probability under the model, and the likeliest tokens there.

    Natural logs of the softmax of the model's own logits, before penalties, temperature
    and filters. `top` is best first, the lower id first among equals. `logprob` None is
    a prompt's first token, which nothing comes before.
    """

    token: int
    logprob: float | None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TierCalls:
    """Expert calls (one expert, any rows) by where they were computed."""

    ram: int = 0
    disk: int = 0
    hub: int = 0
    edge: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """What one step cost one request: experts by tier, waits, traffic, page faults.

    `wait_s` is the time the lane waited for the network; `n_rows` how many rows, of all
    requests, the step had.
    """

    calls: TierCalls
    seconds: float
    wait_s: float = 0.0
    round_trips: int = 0
    n_rows: int = 1
    cache_hits: int = 0  # of disk calls: those that needed no read
    read_bytes: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    dropped_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedHash:
    """The hash of a layer's input or of an expert's output, for one token.

    `position` is the token's place in the sequence; `expert` None is the layer's input
    to its experts. `digest` is 8 bytes of BLAKE2b over the row's f32 bytes.
    """

    position: int
    layer: int
    expert: int | None
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationStep:
    """One accepted block: one token, or several when drafts were accepted.

    `logprobs` has an item for each token if they were asked for; `figures`, `passes`
    (those since the last block) and `hashes` likewise. The first step's `hashes` and
    `passes` include those of the prompt.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] = ()
    figures: StepFigures | None = None
    hashes: tuple[TracedHash, ...] = ()
    passes: tuple[PassTrace, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one request; drafts apart, since clients never pay for those.

    `completion_tokens` counts through the stop token, which is not shown.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0  # of the prompt, taken from a kept KV prefix
    drafted_tokens: int = 0
    accepted_draft_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Where the time of one request went, in seconds; and what it cost in traffic."""

    queued_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    calls: TierCalls = field(default_factory=TierCalls)
    round_trips: int = 0  # remote waits that blocked the lane while decoding
    prefill_round_trips: int = 0
    bytes_up: int = 0  # towards experts
    bytes_down: int = 0
    failovers: int = 0  # calls dispatched again because a holder was lost or late
    hedges: int = 0  # calls that a second worker was asked for as well
    fetched_bytes: int = 0  # of weights, before passes that would need them
    dropped_calls: int = 0  # only under the explicit policy `drop`
    wait_s: float = 0.0  # decode time in which the lane waited for the network
    cache_hits: int = 0  # of the disk calls: those that needed no read
    read_bytes: int = 0  # from the disk
    minor_faults: int = 0
    major_faults: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationEnd:
    """The figures of a run: final after the iteration ended, else those so far."""

    finish_reason: FinishReason | None
    usage: Usage
    timings: Timings


class GenerationRun(Protocol):
    """A request in flight."""

    def __aiter__(self) -> AsyncIterator[GenerationStep]:
        """Yield accepted blocks; raise `GenerationFailed` if it cannot complete."""
        ...

    def end(self) -> GenerationEnd:
        """Return the figures so far."""
        ...

    def prompt_logprobs(self) -> tuple[TokenLogprobs, ...]:
        """Return one item for each token of the prompt, if they were asked for.

        They are all there with the first step.
        """
        ...


class Generator(Protocol):
    """The engine, as the API sees it."""

    def generate(
        self, request: GenerationRequest
    ) -> AbstractAsyncContextManager[GenerationRun]:
        """Admit one request; leaving the context frees everything it holds."""
        ...


class Phase(StrEnum):
    """How far the start-up has come; no traffic is taken before READY."""

    LOADING = "loading"
    WARMING = "warming"
    COVERING = "covering"
    READY = "ready"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Answer of `/readyz`: the phase, and the covered share while covering.

    `is_damaged`: requests are taken, but some or all of them cannot be answered.
    `was_ready`: it has been ready before, and covering is for experts that were lost.
    """

    phase: Phase
    covered: float = 0.0  # 0 to 1: experts with at least one live holder
    detail: str = ""
    is_damaged: bool = False
    was_ready: bool = False

    @property
    def takes_requests(self) -> bool:
        """Whether requests are taken: from the first time it is ready to its end."""
        if self.phase is Phase.COVERING:
            return self.was_ready
        return self.phase is Phase.READY
