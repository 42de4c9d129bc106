"""Choose the next token from logits.

In this order: penalties, biases, temperature, top-k, top-p, min-p, then the largest of
logit + Gumbel noise, which draws from exactly the distribution that is left. The noise
is a function of (seed, position, token id), so drawing is a function of its arguments:
a drafted token is accepted exactly if it is what plain decoding would have drawn.
Temperature 0 takes the largest logit, the lowest id among equals.

`position` is the place of the drawn token in the sequence, prompt included.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.errors import SamplingRefused
from p2pmoe.model.noise import gumbel

__all__ = ["SamplingSettings", "log_probabilities", "sample", "sample_closely"]

F64 = npt.NDArray[np.float64]
_COLD: Final = 1e-6  # below it noise decides nothing, and quotients overflow in the end


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """How to draw; SamplingRefused for a value out of range.

    The defaults of the filters and penalties change nothing.
    """

    temperature: float = 1.0  # 0, or less than a millionth, takes the largest logit
    top_k: int = 0  # keep so many; 0 keeps all
    top_p: float = 1.0  # keep the most probable until they sum to this
    min_p: float = 0.0  # keep what has this share of the largest probability
    repetition_penalty: float = 1.0  # divides the logits of tokens seen
    frequency_penalty: float = 0.0  # subtracted once for each time seen
    presence_penalty: float = 0.0  # subtracted once from tokens seen
    seed: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()  # (token id, what is added), unique

    def __post_init__(self) -> None:
        """Refuse what is out of range, NaN included."""
        ranges = {
            "temperature": (self.temperature, 0.0, 100.0),
            "top_k": (self.top_k, 0, math.inf),
            "top_p": (self.top_p, 0.0, 1.0),
            "min_p": (self.min_p, 0.0, 1.0),
            "repetition_penalty": (self.repetition_penalty, 0.01, 100.0),
            "frequency_penalty": (self.frequency_penalty, -100.0, 100.0),
            "presence_penalty": (self.presence_penalty, -100.0, 100.0),
        }
        for name, (value, low, high) in ranges.items():
            if not low <= value <= high:
                raise SamplingRefused(f"{name} {value} is not in {low}..{high}")
        for token, bias in self.logit_bias:
            if token < 0 or not -100.0 <= bias <= 100.0:
                raise SamplingRefused(
                    f"logit_bias {bias} of {token} is not in -100..100"
                )

    @property
    def penalizes(self) -> bool:
        """Whether tokens seen before matter."""
        return (
            self.repetition_penalty != 1.0
            or self.frequency_penalty != 0.0
            or self.presence_penalty != 0.0
        )


def sample(
    logits: Floats, settings: SamplingSettings, history: Sequence[int], position: int
) -> int:
    """Return the next token's id.

    Args:
        logits: Finite, f32 [n_vocab].
        settings: How to draw.
        history: The tokens that penalties count, in any order.
        position: Where the drawn token will stand.
    """
    kept, scores = _contest(logits, settings, history, position)
    best = int(np.argmax(scores))
    return best if kept is None else int(kept[best])


def sample_closely(
    logits: Floats, settings: SamplingSettings, history: Sequence[int], position: int
) -> tuple[int, float]:
    """Return what `sample` does, and by how much it won: in logits, at least 0.

    The larger, the likelier that somewhat other logits would have drawn the same.
    """
    kept, scores = _contest(logits, settings, history, position)
    best = int(np.argmax(scores))
    token = best if kept is None else int(kept[best])
    if len(scores) == 1:
        return token, math.inf
    winner = scores[best]
    scores[best] = -math.inf
    unit = 1.0 if kept is None else settings.temperature
    return token, float(winner - scores.max()) * unit


def _contest(
    logits: Floats, settings: SamplingSettings, history: Sequence[int], position: int
) -> tuple[npt.NDArray[np.int64] | None, F64]:
    """Return who can be drawn and with which scores; the largest is. None: all can.

    Cold, scores are logits; else logits over the temperature, with noise.
    """
    scores = logits.astype(np.float64)
    if settings.penalizes and history:
        _penalize(scores, settings, history)
    if settings.logit_bias:
        _bias(scores, settings)
    if settings.temperature < _COLD:
        return None, scores
    scores /= settings.temperature
    kept = _kept(scores, settings)
    return kept, scores[kept] + gumbel(settings.seed, position, kept)


def log_probabilities(logits: Floats) -> F64:
    """Return the natural log of the softmax of `logits` [..., n_vocab], in f64."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


def _penalize(scores: F64, settings: SamplingSettings, history: Sequence[int]) -> None:
    seen, counts = np.unique(np.asarray(history, np.int64), return_counts=True)
    own = scores[seen]
    factor = settings.repetition_penalty
    own = np.where(own > 0, own / factor, own * factor)
    own -= settings.frequency_penalty * counts + settings.presence_penalty
    scores[seen] = own


def _bias(scores: F64, settings: SamplingSettings) -> None:
    """Add the biases; those of ids beyond the logits are nobody's."""
    for token, bias in settings.logit_bias:
        if token < len(scores):
            scores[token] += bias


def _kept(scores: F64, settings: SamplingSettings) -> npt.NDArray[np.int64]:
    """Return the ids that survive the filters, ascending; never none."""
    n = len(scores)
    if settings.top_k == 0 and settings.top_p == 1.0 and settings.min_p == 0.0:
        return np.arange(n)
    # Best first; stable, so that the lower id comes first among equals.
    order = np.argsort(-scores, kind="stable")
    if settings.top_k:
        order = order[: settings.top_k]
    weights = np.exp(scores[order] - scores[order[0]])
    if settings.top_p < 1.0:
        before = np.cumsum(weights) - weights
        n_kept = int((before < settings.top_p * weights.sum()).sum())
        order, weights = order[: max(1, n_kept)], weights[: max(1, n_kept)]
    kept = order[weights >= settings.min_p]  # the largest weight is 1
    return np.sort(kept)
