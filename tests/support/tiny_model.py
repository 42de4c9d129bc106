"""Models for tests with the ways to run them, and the shared tiny ones, loaded once.

`tiny_model(name)` is one of the shared references (`models/tiny/<name>`), or skips the
calling test where they are not. `assert_is_the_reference` and `assert_any_chunking` are
what every architecture is held against.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import Logits, Model, load_model
from p2pmoe.weights.model_file import open_model
from tests.support.shared import shared_path

__all__ = [
    "TINY_M3",
    "TinyModel",
    "assert_any_chunking",
    "assert_is_the_reference",
    "load_local",
    "tiny_model",
]

TINY_M3 = "models/tiny/minimax_m3"
_TOLERANCE = 1e-5  # f32 sums in another order; 1e-6 is usual


@dataclass(frozen=True)
class TinyModel:
    model: Model
    experts: LocalExperts

    def run(
        self, tokens: Sequence[int], cache: KvCache, logits: Logits = Logits.ALL
    ) -> np.ndarray:
        return self.model.forward(tokens, cache, self.experts, logits=logits)

    def greedy(self, prompt: Sequence[int], n: int) -> list[int]:
        cache = self.model.new_cache(len(prompt) + n)
        logits = self.run(prompt, cache, Logits.LAST)
        chosen: list[int] = []
        while True:
            chosen.append(int(logits[-1].argmax()))
            if len(chosen) == n:
                return chosen
            logits = self.run(chosen[-1:], cache)

    def in_steps(
        self, tokens: Sequence[int], steps: Sequence[int]
    ) -> tuple[np.ndarray, KvCache]:
        """Run tokens in steps of these lengths; all logits, and the cache."""
        cache = self.model.new_cache(len(tokens))
        parts, at = [], 0
        for n in steps:
            parts.append(self.run(tokens[at : at + n], cache))
            at += n
        return np.concatenate(parts), cache


def load_local(
    path: Path, kernel: Kernel | None = None, profile: Profile = Profile.R16
) -> TinyModel:
    """Load a file with all its experts, by default with the numpy kernel."""
    kernel = kernel or NumpyKernel()
    with open_model(path) as model_file:
        model = load_model(model_file, kernel)
        return TinyModel(model, LocalExperts.load(model_file, kernel, profile))


def tiny_model(
    profile: Profile = Profile.R32,
    name: str = "minimax_m3",
    kernel: Kernel | None = None,
) -> TinyModel:
    """Return a tiny model, or skip the calling test where it is not there."""
    shared_path(f"models/tiny/{name}/model-f32.gguf")
    return _load(profile, name, kernel)


@functools.cache
def _load(profile: Profile, name: str, kernel: Kernel | None) -> TinyModel:
    path = shared_path(f"models/tiny/{name}/model-f32.gguf")
    return load_local(path, kernel, profile)


def assert_is_the_reference(name: str, kernel: Kernel) -> None:
    """Hold logits and greedy ids against transformers in f32."""
    reference = np.load(shared_path(f"models/tiny/{name}/reference.npz"))
    own = tiny_model(Profile.R32, name, kernel)
    prompt = reference["prompt"].tolist()
    cache = own.model.new_cache(len(prompt))
    logits = own.run(prompt, cache)
    assert np.abs(logits[reference["rows"]] - reference["logits"]).max() < _TOLERANCE
    per_token = own.model.description.kv_bytes_per_token
    assert cache.n_bytes == len(prompt) * per_token
    greedy = reference["greedy"].tolist()
    assert own.greedy(prompt, len(greedy)) == greedy


def assert_any_chunking(own: TinyModel, tokens: Sequence[int]) -> None:
    """Hold logits, keys and values of several chunkings against those of one step."""
    whole, expected = own.in_steps(tokens, [len(tokens)])
    half = len(tokens) // 2
    chunkings = (
        [1] * len(tokens),
        [len(tokens) - 1, 1],
        [3, half, len(tokens) - half - 3],
    )
    for steps in chunkings:
        logits, cache = own.in_steps(tokens, steps)
        assert logits.tobytes() == whole.tobytes(), steps
        for a, b in zip(cache.layers, expected.layers, strict=True):
            assert a.keys.tobytes() == b.keys.tobytes(), steps
            assert a.values.tobytes() == b.values.tobytes(), steps
