"""The tiny MiniMax-M3 of the shared references, loaded once, and ways to run it."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import Logits, Model, load_model
from p2pmoe.weights.model_file import open_model
from tests.support.shared import shared_path

__all__ = ["TINY_M3", "TinyModel", "tiny_model"]

TINY_M3 = "models/tiny/minimax_m3"


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


def tiny_model(profile: Profile = Profile.R32) -> TinyModel:
    """Return the tiny model, or skip the calling test where it is not there."""
    shared_path(f"{TINY_M3}/model-f32.gguf")
    return _load(profile)


@functools.cache
def _load(profile: Profile) -> TinyModel:
    kernel = NumpyKernel()
    with open_model(shared_path(f"{TINY_M3}/model-f32.gguf")) as model_file:
        return TinyModel(
            load_model(model_file, kernel),
            LocalExperts.load(model_file, kernel, profile),
        )
