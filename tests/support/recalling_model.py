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

__all__ = ["TOKEN_BYTES", "RecallingCache", "RecallingModel", "cold_run"]

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

    def grow(self, capacity: int) -> None:
        assert capacity <= self.limit
        self.capacity = max(capacity, self.capacity)

    def copy_prefix(self, length: int, capacity: int) -> "RecallingCache":
        assert 0 <= length <= min(self.length, capacity)
        copy = RecallingCache(self.model, capacity, self.limit)
        copy.tokens = self.tokens[:length]
        return copy


@dataclass
class RecallingModel:
    """`on_step` sees each step's parts before it runs, and may raise."""

    on_step: Callable[[Sequence[SequencePart]], object] = lambda _: None
    n_steps: int = 0
    caches: "weakref.WeakSet[RecallingCache]" = field(default_factory=weakref.WeakSet)
    description: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            n_context=4096, kv_bytes_per_token=TOKEN_BYTES
        )
    )

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
