"""Decode and prompt rates of one model file, ours beside llama.cpp's.

Both hold the file's weights in memory and are asked in turn, round by round, so that a
moment's load on the machine falls on both. Before anything is measured, their logits
are compared: rates count only for the same work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from mobile_worker.arithmetic.kernel import Kernel
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import Logits, load_model
from p2pmoe.weights.model_file import open_model
from tests.benchmarks.llama_baseline import Llama
from tests.benchmarks.rounds import Stopwatch, Timed, measured_rounds

__all__ = ["OurModel", "Rates", "Work", "agreement", "alternate", "tokens"]

N_CONTEXT = 512
N_COMPARED = 16  # positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is measured: a prompt in one batch, and decoding after another prompt."""

    n_before: int = 16
    n_decoded: int = 32
    n_prompt: int = 128


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens a second of several rounds."""

    decode: Sequence[float] = ()
    prompt: Sequence[float] = ()


def tokens(n: int, n_vocab: int = 4096) -> list[int]:
    """Return ids that differ, so that they are routed to different experts."""
    return [(100 + 37 * number) % n_vocab for number in range(n)]


class OurModel:
    """One file loaded by us, all experts at hand."""

    def __init__(self, path: Path, kernel: Kernel) -> None:
        """Read all weights."""
        with open_model(path) as model_file:
            self._model = load_model(model_file, kernel)
            self._experts = LocalExperts.load(model_file, kernel)
            for promise in model_file.unread():
                promise.read()
        description = self._model.description
        for layer in description.moe_layers:
            self._experts.layer(layer, range(description.n_expert))
        self._cache = self._model.new_cache(N_CONTEXT)

    def prompt_rate(self, ids: Sequence[int]) -> Timed:
        """Return rows a second of one prompt, computed as one batch."""
        self._cache.truncate(0)
        watch = Stopwatch()
        self._model.forward(ids, self._cache, self._experts)
        return watch.timed(len(ids))

    def decode_rate(self, ids: Sequence[int], n: int) -> Timed:
        """Return tokens a second of `n` single steps after a short prompt."""
        self._cache.truncate(0)
        logits = self._model.forward(ids, self._cache, self._experts)
        watch = Stopwatch()
        for _ in range(n):
            token = int(logits[-1].argmax())
            logits = self._model.forward([token], self._cache, self._experts)
        return watch.timed(n)

    def log_probabilities(self, ids: Sequence[int]) -> np.ndarray:
        """Return f64 [n, n_vocab] of the tokens that follow each."""
        self._cache.truncate(0)
        logits = self._model.forward(
            ids, self._cache, self._experts, logits=Logits.ALL
        ).astype(np.float64)
        shifted = logits - logits.max(axis=1, keepdims=True)
        sums = np.exp(shifted).sum(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(sums))


def agreement(ours: OurModel, theirs: Llama) -> float:
    """Return the median correlation of both models' log-probabilities.

    Over 8 positions; near 0.999. Single ones are lower, where rounding decides between
    two experts. RuntimeError below 0.99: then it is not the same work.
    """
    ids = tokens(N_COMPARED)
    own = ours.log_probabilities(ids)
    found = []
    for n in range(2, N_COMPARED + 1, 2):
        beside = theirs.log_probabilities(ids[:n], own.shape[1])
        told = np.isfinite(beside)
        if told.any():
            found.append(np.corrcoef(own[n - 1, told], beside[told])[0, 1])
    median = float(np.median(found))
    if not median >= 0.99:
        raise RuntimeError(f"our logits are not llama.cpp's: correlation {median}")
    return median


def alternate(
    sides: Sequence[OurModel | Llama], n_rounds: int, work: Work
) -> list[Rates]:
    """Measure all sides in turn, round by round, after a short one to warm up."""
    before, prompt = tokens(work.n_before), tokens(work.n_prompt)
    for side in sides:
        side.decode_rate(before, 4)
    decode = [partial(side.decode_rate, before, work.n_decoded) for side in sides]
    prompts = [partial(side.prompt_rate, prompt) for side in sides]
    rates = (measured_rounds(measures, n_rounds) for measures in (decode, prompts))
    return [Rates(*own) for own in zip(*rates, strict=True)]
