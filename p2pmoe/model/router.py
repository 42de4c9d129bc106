"""The router: which experts a token goes to, and how their results are mixed.

Scores are f32: softmax or sigmoid of logits that were summed in eight lanes. The
selection bias is added for choosing only, never for mixing. Equal scores go to the
lower expert id. Mixing weights are the chosen scores; with the norm flag divided by
their sum (over the chosen in ascending id); then times the routed scale. Faults B12
and B13 of the reference list are its tests.
"""

from dataclasses import dataclass
from enum import IntEnum, unique

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.elementary import exp, sigmoid
from mobile_worker.arithmetic.lanes import lane_matmul, lane_weights, sum_in_lanes
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.experts import Routing

__all__ = ["Router", "RouterSettings", "ScoreFunction", "choose"]


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


class Router:
    """One layer's router."""

    def __init__(
        self, weight: Floats, bias: Floats | None, settings: RouterSettings
    ) -> None:
        """Take `weight` f32 [n_expert, n_embd] and the selection bias [n_expert].

        Raises ModelRefused if one of them is not finite or top_k does not fit.
        """
        if not np.isfinite(weight).all():
            raise ModelRefused("a router weight is not finite")
        if bias is not None and not np.isfinite(bias).all():
            raise ModelRefused("a router's selection bias is not finite")
        if not 1 <= settings.top_k <= len(weight):
            raise ModelRefused(f"top {settings.top_k} of {len(weight)} experts")
        self._weight = lane_weights(weight)
        self._bias = bias
        self._settings = settings

    def route(self, hidden: Floats) -> Routing:
        """Route `hidden` f32 [n_tokens, n_embd]."""
        return choose(lane_matmul(self._weight, hidden), self._bias, self._settings)


def choose(logits: Floats, bias: Floats | None, settings: RouterSettings) -> Routing:
    """Choose experts by `logits` f32 [n_tokens, n_expert] and weigh them."""
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
    return Routing(experts=experts, weights=weights)
