"""A model whose next token depends on every token its cache holds: for schedules.

Its caches remember the tokens themselves, so whatever is reused, moved, dropped or
computed again wrongly shows as another token. Live caches are counted.
"""

import hashlib
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.generation import GenerationRequest
from p2pmoe.model.errors import CacheFull
from p2pmoe.model.logits import Logits
from p2pmoe.model.sampler import sample
from p2pmoe.model.step import SequencePart
from p2pmoe.model.walk import Layers, Walk

__all__ = ["N_VOCAB", "TOKEN_BYTES", "RecallingCache", "RecallingModel", "cold_run"]

N_VOCAB = 32
TOKEN_BYTES = 10


class RecallingCache:
    """A `KvCache` of tokens."""

    def __init__(self, model: "RecallingModel", capacity: int, limit: int) -> None:
        self.model = model
        self.capacity = capacity
        self.limit = limit
        self.tokens: list[int] = []
        model.caches.add(self)

    @property
    def length(self) -> int:
        return len(self.tokens)

    @property
    def n_bytes(self) -> int:
        return self.capacity * TOKEN_BYTES

    def truncate(self, length: int) -> None:
        assert 0 <= length <= self.length
        del self.tokens[length:]

    def view(self, length: int) -> "RecallingCache":
        assert 0 <= length <= self.capacity
        view = RecallingCache(self.model, self.capacity, self.limit)
        self.model.caches.discard(view)
        view.tokens = [*self.tokens[:length], *[-1] * (length - self.length)]
        return view

    def copy_position(self, position: int, n_layers: int) -> list[Floats]:
        assert 0 <= position < self.capacity
        return [np.zeros(0, np.float32)] * n_layers

    def put_position(self, position: int, copies: list[Floats]) -> None:
        assert 0 <= position < self.capacity
        self.model.n_put_back += len(copies)

    def grow(self, capacity: int) -> None:
        assert capacity <= self.limit
        self.capacity = max(capacity, self.capacity)

    def copy_prefix(self, length: int, capacity: int) -> "RecallingCache":
        assert 0 <= length <= min(self.length, capacity)
        copy = RecallingCache(self.model, capacity, self.limit)
        copy.tokens = self.tokens[:length]
        return copy


@dataclass
class _Polled:
    """A layer's experts, that are ready after some questions."""

    n_left: int

    def compute(self) -> None:
        pass

    def is_ready(self) -> bool:
        self.n_left -= 1
        return self.n_left < 0


@dataclass
class RecallingModel:
    """`on_step` sees each step's parts before it runs, and may raise.

    A walk has `n_layers` layers, and each is ready when it was asked `n_polls` times.
    """

    on_step: Callable[[Sequence[SequencePart]], object] = lambda _: None
    n_steps: int = 0
    caches: "weakref.WeakSet[RecallingCache]" = field(default_factory=weakref.WeakSet)
    description: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            n_context=4096, kv_bytes_per_token=TOKEN_BYTES, n_vocab=N_VOCAB
        )
    )
    n_layers: int = 2
    n_polls: int = 0
    n_put_back: int = 0  # layers of positions that were put back into caches

    def routers(self) -> dict[int, None]:
        return dict.fromkeys(range(self.n_layers))

    def walk(self, parts: Sequence[SequencePart], experts: object) -> Walk:
        return Walk(self._layers(parts, experts))

    def _layers(self, parts: Sequence[SequencePart], experts: object) -> Layers:
        for _ in range(self.n_layers):
            yield _Polled(self.n_polls)
        return self.step(parts, experts)

    def new_cache(self, n_tokens: int, *, limit: int | None = None) -> RecallingCache:
        return RecallingCache(self, n_tokens, limit or n_tokens)

    def step(self, parts: Sequence[SequencePart], experts: object) -> list[Floats]:
        del experts
        self.n_steps += 1
        self.on_step(parts)
        for part in parts:
            n = part.cache.length + len(part.tokens)
            if n > part.cache.capacity:
                raise CacheFull(f"{n} do not fit {part.cache.capacity}")
        found = []
        for part in parts:
            rows = []
            for token in part.tokens:
                part.cache.tokens.append(token)
                rows.append(_logits(part.cache.tokens))
            n = {Logits.NONE: 0, Logits.LAST: 1, Logits.ALL: len(rows)}[part.logits]
            kept = rows[len(rows) - n :]
            found.append(np.array(kept, np.float32).reshape(n, N_VOCAB))
        return found

    @property
    def live_bytes(self) -> int:
        """Bytes of all caches that somebody still holds."""
        return sum(cache.n_bytes for cache in self.caches)


def cold_run(request: GenerationRequest) -> list[int]:
    """Return the tokens of a run by itself, from nothing."""
    tokens = list(request.prompt_ids)
    for _ in range(request.max_tokens):
        logits = np.array(_logits(tokens), np.float32)
        tokens.append(sample(logits, request.sampling, tokens, len(tokens)))
        if tokens[-1] in request.stop_ids:
            break
    return tokens[len(request.prompt_ids) :]


def _logits(tokens: Sequence[int]) -> list[float]:
    digest = hashlib.sha256(np.asarray(tokens, np.int64).tobytes()).digest()
    return [byte / 64.0 for byte in digest]
