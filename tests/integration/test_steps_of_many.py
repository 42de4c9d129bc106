"""A step of several sequences gives each of them what it gets alone, bit for bit.

For every architecture that has a tiny reference, a block-sparse model that leaves
blocks out early, and the pocket model: sequences run in steps together, in pieces,
with caches that grow, are cut back and copied, and each row's logits and the caches
are those of one sequence in one step. A step that fails leaves all of them as they
were.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mobile_worker.arithmetic.errors import NonFinite
from p2pmoe.model.errors import CacheFull, TokenRefused
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.model import Logits, SequencePart
from tests.support.kernels import all_kernels, fastest_kernel
from tests.support.mini_m3 import write_mini_m3
from tests.support.tiny_folders import TINY_FOLDERS
from tests.support.tiny_model import TinyModel, load_local, tiny_model

POCKET = Path(__file__).resolve().parents[2] / "p2pmoe/models/pocket-q4_0.gguf"
N_TOKENS, LIMIT = 24, 40
MODELS = (*TINY_FOLDERS, "mini-m3", "pocket")


@functools.cache
def opened(name: str, *, numpy: bool = False) -> TinyModel:
    kernel = all_kernels()[-1] if numpy else fastest_kernel()
    if name == "pocket":
        return load_local(POCKET, kernel)
    if name == "mini-m3":  # leaves blocks out from position 16 on
        return load_local(write_mini_m3(Path(mkdtemp()) / "m.gguf"), kernel)
    return tiny_model(name=name, kernel=kernel)


@functools.cache
def texts(name: str) -> tuple[tuple[int, ...], ...]:
    """Return the ids of three sequences."""
    rng = np.random.default_rng(5)
    n_vocab = opened(name).model.description.n_vocab
    return tuple(tuple(rng.integers(0, n_vocab, N_TOKENS).tolist()) for _ in range(3))


def kept(cache: KvCache, length: int) -> bytes:
    """Return keys and values, index keys too, of the first positions."""
    parts = []
    for layer in cache.layers:
        parts += [layer.keys[:, :, :length], layer.values[:length]]
        if layer.index_keys is not None:
            parts.append(layer.index_keys[:, :, :length])
    return b"".join(part.tobytes() for part in parts)


@functools.cache
def alone(name: str, text: int) -> tuple[np.ndarray, KvCache]:
    """Return the logits and the cache of one sequence in one step."""
    own = opened(name)
    cache = own.model.new_cache(N_TOKENS, limit=LIMIT)
    return own.run(texts(name)[text], cache), cache


@dataclass
class Sequence:
    """One sequence under way, held against what it is alone."""

    name: str
    text: int
    cache: KvCache
    last: int = field(default=-1)

    def part(self, n: int, logits: Logits) -> SequencePart:
        """Return the next `n` tokens; the cache grows if it must."""
        at = self.cache.length
        n = min(n, N_TOKENS - at)
        self.cache.grow(at + n)
        return SequencePart(
            texts(self.name)[self.text][at : at + n], self.cache, logits
        )

    def check(self, part: SequencePart, logits: np.ndarray) -> None:
        expected, whole = alone(self.name, self.text)
        end = self.cache.length
        n = {Logits.NONE: 0, Logits.LAST: 1, Logits.ALL: len(part.tokens)}
        assert len(logits) == n[part.logits]
        assert logits.tobytes() == expected[end - len(logits) : end].tobytes()
        assert kept(self.cache, end) == kept(whole, end)


moves = st.lists(
    st.tuples(
        st.sampled_from(["step", "step", "step", "truncate", "copy"]),
        st.lists(
            st.tuples(st.integers(0, 9), st.sampled_from(list(Logits))),
            min_size=3,
            max_size=3,
        ),
        st.integers(0, N_TOKENS),
    ),
    max_size=8,
)


def play(name: str, plan: list) -> None:
    own = opened(name)
    sequences = [
        Sequence(name, text, own.model.new_cache(2, limit=LIMIT)) for text in range(3)
    ]
    for move, shares, number in plan:
        if move == "step":
            running = [
                (one, one.part(n, logits))
                for one, (n, logits) in zip(sequences, shares, strict=True)
                if n and one.cache.length < N_TOKENS
            ]
            if not running:
                continue
            results = own.model.step([part for _, part in running], own.experts)
            for (one, part), logits in zip(running, results, strict=True):
                one.check(part, logits)
            continue
        one = sequences[number % 3]
        length = min(number, one.cache.length)
        if move == "truncate":
            one.cache.truncate(length)
        else:
            one.cache = one.cache.copy_prefix(length, max(1, number))


@pytest.mark.parametrize("name", MODELS)
@given(plan=moves)
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
def test_a_row_is_the_same_whatever_runs_beside_it(name: str, plan: list) -> None:
    play(name, plan)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@given(plan=moves)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
def test_a_row_is_the_same_in_many_more_plans(name: str, plan: list) -> None:
    play(name, plan)


@pytest.mark.parametrize("name", MODELS)
def test_every_kernel_gives_numpys_bytes_for_a_step_of_many(name: str) -> None:
    results = []
    for numpy in (False, True):
        own = opened(name, numpy=numpy)
        caches = [own.model.new_cache(N_TOKENS) for _ in range(3)]
        parts = [
            SequencePart(ids[: 4 + 9 * at], cache, Logits.ALL)
            for at, (ids, cache) in enumerate(zip(texts(name), caches, strict=True))
        ]
        logits = b"".join(each.tobytes() for each in own.model.step(parts, own.experts))
        results.append((logits, [kept(cache, cache.length) for cache in caches]))
    assert results[0] == results[1]


class Raising:
    """Experts that give out in a layer."""

    def __init__(self, own: TinyModel, layer: int) -> None:
        self.own, self.layer = own, layer

    def begin(self, layer: int, hidden: np.ndarray, routing: object) -> object:
        if layer == self.layer:
            raise TimeoutError("nobody answers")
        return self.own.experts.begin(layer, hidden, routing)


def fail_by_experts(own: TinyModel, parts: list[SequencePart]) -> None:
    last = own.model.description.moe_layers[-1]
    with pytest.raises(TimeoutError):
        own.model.step(parts, Raising(own, last))


def fail_by_a_full_cache(own: TinyModel, parts: list[SequencePart]) -> None:
    full = own.model.new_cache(2)
    with pytest.raises(CacheFull):
        own.model.step([*parts, SequencePart([1, 2, 3], full)], own.experts)
    assert full.length == 0


def fail_by_a_token(own: TinyModel, parts: list[SequencePart]) -> None:
    with pytest.raises(TokenRefused):
        own.model.step(
            [*parts, SequencePart([-1], own.model.new_cache(2))], own.experts
        )


def fail_by_a_value(own: TinyModel, parts: list[SequencePart]) -> None:
    """One sequence whose values are no numbers ends the step for all."""
    poisoned = own.model.new_cache(4)
    own.run([1, 2], poisoned)
    for layer in poisoned.layers:
        layer.values[:2] = np.inf
        layer.keys[:, :, :2] = np.nan
    with pytest.raises(NonFinite):
        own.model.step([*parts, SequencePart([3], poisoned)], own.experts)
    assert poisoned.length == 2


FAILURES = (fail_by_experts, fail_by_a_full_cache, fail_by_a_token, fail_by_a_value)


@pytest.mark.parametrize("fail", FAILURES, ids=lambda fail: fail.__name__)
@pytest.mark.parametrize("name", MODELS)
def test_a_step_that_fails_advances_nothing(
    name: str, fail: Callable[[TinyModel, list[SequencePart]], None]
) -> None:
    own = opened(name)
    sequences = [
        Sequence(name, text, own.model.new_cache(2, limit=LIMIT)) for text in range(3)
    ]
    first = [one.part(2 + one.text, Logits.NONE) for one in sequences]
    own.model.step(first, own.experts)
    lengths = [one.cache.length for one in sequences]
    parts = [one.part(3, Logits.ALL) for one in sequences]
    fail(own, parts)
    assert [one.cache.length for one in sequences] == lengths
    for one, part in zip(sequences, parts, strict=True):  # again, one by one
        (logits,) = own.model.step([part], own.experts)
        one.check(part, logits)
