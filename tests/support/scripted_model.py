"""A model that says what it is told to say, and experts that only count: for lanes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.generation import GenerationRequest
from p2pmoe.backbone.trace import RequestTrace
from p2pmoe.errors import Cancelled
from p2pmoe.model.errors import CacheFull
from p2pmoe.model.experts import Routing
from p2pmoe.model.logits import Logits
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.model.step import SequencePart

__all__ = ["N_LAYERS", "TOP_K", "CountingExperts", "ScriptedModel", "ask"]

N_LAYERS, TOP_K, N_VOCAB = 3, 2, 64
TOKEN_BYTES = 4  # of a cache


@dataclass
class _Cache:
    """A `KvCache` that keeps nothing; 4 bytes a position."""

    capacity: int = 0
    limit: int = 0
    length: int = 0

    @property
    def n_bytes(self) -> int:
        return TOKEN_BYTES * self.capacity

    def reserve(self, n_tokens: int) -> int:
        if self.length + n_tokens > self.capacity:
            raise CacheFull(f"{self.length} + {n_tokens} do not fit {self.capacity}")
        return self.length

    def truncate(self, length: int) -> None:
        assert 0 <= length <= self.length
        self.length = length

    def view(self, length: int) -> "_Cache":
        assert 0 <= length <= self.capacity
        return _Cache(self.capacity, self.limit, length)

    def grow(self, capacity: int) -> None:
        if capacity > self.limit:
            raise CacheFull(f"{capacity} is beyond {self.limit}")
        self.capacity = max(capacity, self.capacity)

    def copy_prefix(self, length: int, capacity: int) -> "_Cache":
        assert 0 <= length <= min(self.length, capacity)
        if capacity > self.limit:
            raise CacheFull(f"{capacity} is beyond {self.limit}")
        return _Cache(capacity, self.limit, length)


@dataclass
class ScriptedModel:
    """After a prompt of `n_prompt` tokens it says `script`, then token 0 for ever.

    `on_step` is called on the decode thread in each step, with the step's number from
    1, before the experts are asked.
    """

    script: Sequence[int]
    n_prompt: int = 4
    on_step: Callable[[int], object] = lambda _: None
    description: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            n_context=1 << 20, kv_bytes_per_token=TOKEN_BYTES, n_vocab=N_VOCAB
        )
    )
    steps: list[tuple[int, ...]] = field(default_factory=list)
    capacities: list[int] = field(default_factory=list)

    def routers(self) -> dict[int, None]:
        return dict.fromkeys(range(N_LAYERS))

    def new_cache(self, n_tokens: int, *, limit: int | None = None) -> _Cache:
        self.capacities.append(n_tokens)
        return _Cache(n_tokens, limit or n_tokens)

    def step(
        self, parts: Sequence[SequencePart], experts: "CountingExperts"
    ) -> list[Floats]:
        """Run all parts; one entry of `steps`: their tokens, end to end."""
        tokens = tuple(token for part in parts for token in part.tokens)
        for part in parts:
            part.cache.reserve(len(part.tokens))
        self.steps.append(tokens)
        self.on_step(len(self.steps))
        rows = np.zeros((len(tokens), 32), np.float32)
        for layer in range(N_LAYERS):
            experts.begin(layer, rows, _routing(len(tokens)))
        for part in parts:
            part.cache.length += len(part.tokens)
        return [self._logits(part) for part in parts]

    def forward(
        self,
        tokens: Sequence[int],
        cache: _Cache,
        experts: "CountingExperts",
        *,
        logits: Logits = Logits.LAST,
    ) -> Floats:
        return self.step([SequencePart(tokens, cache, logits)], experts)[0]

    def _logits(self, part: SequencePart) -> Floats:
        n = {Logits.NONE: 0, Logits.LAST: 1, Logits.ALL: len(part.tokens)}[part.logits]
        scores = np.zeros((n, N_VOCAB), np.float32)
        for row in range(n):
            at = part.cache.length - n + 1 + row - self.n_prompt
            token = self.script[at] if 0 <= at < len(self.script) else 0
            scores[row, token] = 1.0
        return scores


def _routing(n_rows: int) -> Routing:
    experts = np.arange(TOP_K, dtype=np.int64)[None].repeat(n_rows, axis=0)
    return Routing(experts=experts, weights=np.ones((n_rows, TOP_K), np.float32))


@dataclass
class CountingExperts:
    """Counts calls, one an expert and layer; refuses them once cancelled."""

    trace: RequestTrace = field(default_factory=RequestTrace)
    n_calls: int = 0

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> None:
        del layer, hidden
        if self.trace.cancelled:
            raise Cancelled("the request was cancelled")
        self.n_calls += len(np.unique(routing.experts))


def ask(
    max_tokens: int, *, stop: frozenset[int] = frozenset(), n_prompt: int = 4
) -> GenerationRequest:
    """Return a greedy request with a prompt of `n_prompt` tokens."""
    return GenerationRequest(
        prompt_ids=tuple(range(1, n_prompt + 1)),
        sampling=SamplingSettings(temperature=0.0),
        max_tokens=max_tokens,
        stop_ids=stop,
    )
