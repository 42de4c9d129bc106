"""One sequence from its submission to its end: what the schedule and a lane know of it.

One rule covers prefill, decoding and going on after a preemption: `tokens` is the
prompt and all that was drawn, the cache holds the first `length` of them, and the rest
is still to be run. A token is drawn whenever nothing is left. Mutable; the schedule's
lock guards what others than the lane look at.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from p2pmoe.backbone.generation import (
    GenerationRequest,
    StepFigures,
    TierCalls,
    TokenConstraint,
    TokenLogprobs,
    TracedHash,
)
from p2pmoe.backbone.trace import RequestTrace
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.passes.values import PassTrace

__all__ = ["Origin", "SequenceState", "add_figures"]

Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Origin:
    """Where a sequence's first positions come from: a cache, and how many of them.

    `is_own` if the cache itself was handed over, else it is copied.
    """

    cache: KvCache
    length: int
    is_own: bool


@dataclass(slots=True, kw_only=True, eq=False)
class SequenceState:
    """A sequence; times are monotonic seconds."""

    request: GenerationRequest
    trace: RequestTrace
    submitted: float
    deadline: float
    number: int = 0  # by arrival; the largest is the youngest
    tokens: list[int] = field(default_factory=list)  # the prompt, and those drawn
    cache: KvCache | None = None
    origin: Origin | None = None  # of the cache that is still to be made
    room: int = 0  # positions that the KV pool granted
    prompt: Tokens = field(init=False)  # as an array, to be compared with others'
    started: float | None = None  # when it first got a slot
    decode_started: float | None = None
    n_waited: int = 0  # steps of its lane that it was left out of
    is_suspect: bool = False  # was in a failed step; runs alone till it is cleared
    parked_until: float | None = None  # nobody holds an expert that it needs
    parked_by: Exception | None = None
    gives_way: bool = False  # its lane is to preempt it
    n_cached: int = 0  # positions of the prompt that were reused
    n_restored: int = 0  # positions that were complete before it began
    n_hint: int = 0  # positions that others had of it when it got its slot
    n_drafted: int = 0  # tokens drafted for it and run
    n_accepted: int = 0  # of them, those that were drawn
    constraint: TokenConstraint | None = None
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)
    figures: StepFigures | None = None  # since the last token
    hashes: list[TracedHash] = field(default_factory=list)  # since the last token
    n_hashed: int = 0  # positions whose hashes were kept, told or not
    passes: list[PassTrace] = field(default_factory=list)  # since the last token

    def __post_init__(self) -> None:
        """Begin with the prompt."""
        self.tokens = list(self.request.prompt_ids)
        self.prompt = np.asarray(self.tokens, np.int64)

    @property
    def n_prompt(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.prompt_ids)

    @property
    def n_drawn(self) -> int:
        """Tokens drawn so far."""
        return len(self.tokens) - self.n_prompt

    @property
    def limit(self) -> int:
        """Positions that it can ever need."""
        return self.n_prompt + self.request.max_tokens

    @property
    def length(self) -> int:
        """Positions that are computed or will be taken from its origin."""
        if self.cache is not None:
            return self.cache.length
        return 0 if self.origin is None else self.origin.length

    @property
    def n_pending(self) -> int:
        """Tokens to be run before the next can be drawn; at least 1."""
        return len(self.tokens) - self.length

    @property
    def n_expected(self) -> int:
        """Tokens to be run, if it can begin with what others had; at least 1."""
        if self.cache is None and self.origin is None:
            return max(1, len(self.tokens) - self.n_hint)
        return self.n_pending

    @property
    def may_reuse(self) -> bool:
        """Whether its first positions may come from elsewhere: nobody looks at them."""
        request = self.request
        return not (request.scores_prompt or request.traces)

    def key(self) -> Tokens:
        """Return all tokens as an array."""
        if self.n_drawn == 0:
            return self.prompt
        return np.asarray(self.tokens, np.int64)

    def drop_cache(self) -> None:
        """Forget all that was computed; the tokens stay."""
        self.cache = self.origin = None
        self.room = self.n_restored = self.n_hint = 0
        self.gives_way = False


def add_figures(before: StepFigures | None, step: StepFigures) -> StepFigures:
    """Return what two steps cost together; `n_rows` is the larger's."""
    if before is None:
        return step
    calls = {
        name: getattr(before.calls, name) + getattr(step.calls, name)
        for name in ("ram", "disk", "hub", "edge")
    }
    sums = {
        name: getattr(before, name) + getattr(step, name)
        for name in StepFigures.__slots__
        if name not in {"calls", "n_rows"}
    }
    return replace(
        step,
        calls=TierCalls(**calls),
        n_rows=max(before.n_rows, step.n_rows),
        **sums,
    )
