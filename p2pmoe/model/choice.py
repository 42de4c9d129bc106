"""Which experts a router's logits choose, and how their results are weighed.

Scores are f32: softmax or sigmoid of the logits. The selection bias is added for
choosing only, never for mixing. Equal scores go to the lower expert id. Mixing weights
are the chosen scores; with the norm flag divided by their sum (over the chosen in
ascending id); then times the routed scale. Faults B12 and B13 of the reference list are
its tests.
"""

from dataclasses import dataclass
from enum import IntEnum, unique

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.elementary import exp, sigmoid
from mobile_worker.arithmetic.lanes import sum_in_lanes

__all__ = ["RouterSettings", "ScoreFunction", "choose"]


@unique
class ScoreFunction(IntEnum):
    """How logits become scores; the value is GGUF's expert_gating_func."""

    SOFTMAX = 1
    SIGMOID = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings:
    """What a model file says about routing."""

    score_function: ScoreFunction
    top_k: int
    norm: bool  # divide the chosen scores by their sum
    scale: float  # routed scaling factor


def choose(
    logits: Floats, bias: Floats | None, settings: RouterSettings
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Choose experts by `logits` f32 [n_tokens, n_expert] and weigh them.

    Returns their ids, ascending, and their weights, [n_tokens, top_k] both.
    """
    if settings.score_function is ScoreFunction.SIGMOID:
        scores = sigmoid(logits)
    else:
        scores = exp(logits - np.maximum.reduce(logits, axis=1, keepdims=True))
        scores /= sum_in_lanes(scores)
    ranked = scores if bias is None else scores + bias
    # Stable, so that the lower id comes first among equals.
    best = np.argsort(-ranked, axis=1, kind="stable")[:, : settings.top_k]
    experts = np.sort(best, axis=1)
    weights = np.take_along_axis(scores, experts, axis=1)
    if settings.norm:
        total = weights[:, :1].copy()
        for slot in range(1, settings.top_k):
            total += weights[:, slot : slot + 1]
        weights /= total
    weights *= np.float32(settings.scale)
    return experts, weights
