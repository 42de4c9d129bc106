"""A model that says what it is told to say, and experts that only count: for lanes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.generation import GenerationRequest
from p2pmoe.backbone.trace import RequestTrace
from p2pmoe.errors import Cancelled
from p2pmoe.model.experts import Routing
from p2pmoe.model.logits import Logits
from p2pmoe.model.sampler import SamplingSettings

__all__ = ["N_LAYERS", "TOP_K", "CountingExperts", "ScriptedModel", "ask"]

N_LAYERS, TOP_K, N_VOCAB = 3, 2, 64


@dataclass
class _Cache:
    length: int = 0


@dataclass
class ScriptedModel:
    """After a prompt of `n_prompt` tokens it says `script`, then token 0 for ever.

    `on_step` is called on the decode thread in each step, with the step's number from
    1, before the experts are asked.
    """

    script: Sequence[int]
    n_prompt: int = 4
    on_step: Callable[[int], object] = lambda _: None
    steps: list[tuple[int, ...]] = field(default_factory=list)
    capacities: list[int] = field(default_factory=list)

    def new_cache(self, n_tokens: int) -> _Cache:
        self.capacities.append(n_tokens)
        return _Cache()

    def forward(
        self,
        tokens: Sequence[int],
        cache: _Cache,
        experts: "CountingExperts",
        *,
        logits: Logits = Logits.LAST,
    ) -> Floats:
        assert logits is Logits.LAST
        self.steps.append(tuple(tokens))
        self.on_step(len(self.steps))
        for layer in range(N_LAYERS):
            experts.begin(layer, np.zeros((len(tokens), 32), np.float32), _ROUTING)
        cache.length += len(tokens)
        at = cache.length - self.n_prompt
        token = self.script[at] if 0 <= at < len(self.script) else 0
        scores = np.zeros((1, N_VOCAB), np.float32)
        scores[0, token] = 1.0
        return scores


_ROUTING = Routing(
    experts=np.arange(TOP_K, dtype=np.int64)[None],
    weights=np.ones((1, TOP_K), np.float32),
)


@dataclass
class CountingExperts:
    """Counts calls; refuses them, as every caller of experts does, once cancelled."""

    trace: RequestTrace = field(default_factory=RequestTrace)
    n_calls: int = 0

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> None:
        del layer, hidden
        if self.trace.cancelled:
            raise Cancelled("the request was cancelled")
        self.n_calls += routing.experts.size


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
