"""Which experts a router's logits choose, and how their results are weighed.

Everything is f32. Scores are the softmax or the sigmoid of the logits, or the logits
themselves (SOFTMAX_OF_CHOSEN). For choosing only, never for mixing, the selection bias
is added; the result ranks the experts. With groups, experts lie in `n_groups` equal
runs; a group is ranked by the rounded sum of its two best ranks if scores are sigmoids
(its one rank if it has a single expert), else by its best; all but the `n_groups_used`
best groups are masked with -inf. Then the `top_k` best ranks are chosen. What is equal
goes to the lower id, of groups as of experts; what is no number comes last.

Mixing weights are the chosen scores, for SOFTMAX_OF_CHOSEN their softmax; with the norm
flag divided by their sum (over the chosen in ascending id); then times the routed
scale. A softmax is exp(fl(logit - most)), summed in eight lanes (lane id % 8, or slot
% 8 of the chosen in ascending id), and one division each. Faults B12 and B13 of the
reference list are its tests.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum, unique
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.elementary import exp, sigmoid
from mobile_worker.arithmetic.lanes import sum_in_lanes
from p2pmoe.model.errors import ModelRefused

__all__ = [
    "AmongChoice",
    "AtHand",
    "Choose",
    "RouterSettings",
    "ScoreFunction",
    "choose",
    "choose_among",
    "foreseen_ranks",
]

AtHand: TypeAlias = npt.NDArray[np.bool_]  # [n_expert]
_TINY: Final = np.float32(1e-30)


@unique
class ScoreFunction(IntEnum):
    """How logits become scores; the value is GGUF's expert_gating_func."""

    SOFTMAX = 1
    SIGMOID = 2
    SOFTMAX_OF_CHOSEN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings:
    """What a model file says about routing."""

    score_function: ScoreFunction
    top_k: int
    norm: bool  # divide the chosen scores by their sum
    scale: float  # routed scaling factor
    n_groups: int = 1
    n_groups_used: int = 1  # of which experts may be chosen

    def check(self, n_expert: int) -> None:
        """Raise ModelRefused if experts cannot be chosen so from `n_expert`."""
        groups = f"{self.n_groups_used} of {self.n_groups} groups"
        if not 1 <= self.n_groups_used <= self.n_groups:
            raise ModelRefused(f"{groups} of experts")
        if n_expert % self.n_groups:
            raise ModelRefused(f"{n_expert} experts in {self.n_groups} groups")
        n_left = n_expert // self.n_groups * self.n_groups_used
        if not 1 <= self.top_k <= n_left:
            where = "" if self.n_groups == 1 else f", {groups}, which hold {n_left}"
            raise ModelRefused(f"top {self.top_k} of {n_expert} experts{where}")


def choose(
    logits: Floats, bias: Floats | None, settings: RouterSettings
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Choose experts by `logits` f32 [n_tokens, n_expert] and weigh them.

    `bias` f32 [n_expert] counts for choosing only; `settings` have been checked.
    Returns the ids, ascending, and the weights, [n_tokens, top_k] both.
    """
    scores = _scores(logits, settings.score_function)
    ranked = scores if bias is None else scores + bias
    if settings.n_groups > 1:
        ranked = _without_other_groups(ranked, settings)
    experts = _best(ranked, settings.top_k)
    weights = np.take_along_axis(scores, experts, axis=1)
    if settings.score_function is ScoreFunction.SOFTMAX_OF_CHOSEN:
        weights = _softmax(weights)
    if settings.norm:
        total = weights[:, :1].copy()
        for slot in range(1, settings.top_k):
            total += weights[:, slot : slot + 1]
        weights /= total
    weights *= np.float32(settings.scale)
    return experts, weights


# `choose`, or an implementation of it.
Choose: TypeAlias = Callable[
    [Floats, Floats | None, RouterSettings],
    tuple[npt.NDArray[np.int64], Floats],
]


@dataclass(frozen=True, slots=True, eq=False)
class AmongChoice:
    """Experts at hand for rows, and the weights of those that are not.

    `experts` and `weights` [n_tokens, as many as there are, at most top_k]; `absent`
    [n_tokens, n_expert] has the weights of chosen experts that are not at hand, else 0.
    """

    experts: npt.NDArray[np.int64]
    weights: Floats
    absent: Floats


def choose_among(
    logits: Floats,
    bias: Floats | None,
    settings: RouterSettings,
    at_hand: AtHand,
    *,
    substitutes: float,
    choose: Choose = choose,
) -> AmongChoice:
    """Choose experts at hand only: for drafts, not to the bit.

    Those that `choose` would take keep the weights that it gives them; the next best,
    in the place of those that are away, get `substitutes` times what they would weigh
    beside them. Groups mask nothing among what is at hand.
    """
    n_chosen = min(settings.top_k, int(np.count_nonzero(at_hand)))
    raw, own, norm = _raw(settings, n_chosen)
    wanted, scores = choose(logits, bias, raw)
    unit = np.float32(settings.scale)
    if norm:
        unit = unit / np.maximum(scores.sum(axis=1, keepdims=True), _TINY)
    rows = np.arange(len(logits))[:, None]
    absent = np.zeros(logits.shape, np.float32)
    absent[rows, wanted] = scores * unit
    is_wanted = absent != 0
    absent[:, at_hand] = 0.0
    if n_chosen == 0:
        nothing = np.zeros((len(logits), 0), np.float32)
        return AmongChoice(nothing.astype(np.int64), nothing, absent)
    away = np.where(at_hand, np.float32(0.0), np.float32(-np.inf))
    experts, scores = choose(logits, away if bias is None else bias + away, own)
    weights = scores * unit
    weights[~is_wanted[rows, experts]] *= np.float32(substitutes)
    return AmongChoice(experts, weights, absent)


@functools.lru_cache(maxsize=256)
def _raw(
    settings: RouterSettings, n_chosen: int
) -> tuple[RouterSettings, RouterSettings, bool]:
    """Return how to choose with plain scores, of all and of what is at hand.

    And whether scores are to be divided by the sum of those of all.
    """
    raw, norm = replace(settings, norm=False, scale=1.0), settings.norm
    if settings.score_function is ScoreFunction.SOFTMAX_OF_CHOSEN:
        raw, norm = replace(raw, score_function=ScoreFunction.SOFTMAX), True
    return raw, replace(raw, top_k=n_chosen, n_groups=1, n_groups_used=1), norm


def foreseen_ranks(
    logits: Floats, bias: Floats | None, settings: RouterSettings
) -> Floats:
    """Return what `choose` ranks experts by, f32 [n_tokens, n_expert], roughly.

    Not to the bit, and without groups: for guessing what will be needed.
    """
    if settings.score_function is not ScoreFunction.SIGMOID and bias is None:
        return logits  # the softmax changes no order
    if settings.score_function is ScoreFunction.SIGMOID:
        scores = sigmoid(logits)
    else:
        scores = _scores(logits, settings.score_function)
    return scores if bias is None else scores + bias


def _scores(logits: Floats, function: ScoreFunction) -> Floats:
    if function is ScoreFunction.SIGMOID:
        return sigmoid(logits)
    return _softmax(logits) if function is ScoreFunction.SOFTMAX else logits


def _softmax(logits: Floats) -> Floats:
    """Return the softmax over the last axis."""
    scores = exp(logits - np.maximum.reduce(logits, axis=1, keepdims=True))
    scores /= sum_in_lanes(scores)
    return scores


def _without_other_groups(ranked: Floats, settings: RouterSettings) -> Floats:
    """Return a copy that is -inf in all groups but the best."""
    groups = ranked.reshape(len(ranked), settings.n_groups, -1)
    in_order = -np.sort(-groups, axis=2)  # the best first, no number last
    best = in_order[:, :, 0]
    if settings.score_function is ScoreFunction.SIGMOID and groups.shape[2] > 1:
        best = best + in_order[:, :, 1]
    kept = _best(best, settings.n_groups_used)[..., None]
    masked = np.full_like(groups, -np.inf)
    np.put_along_axis(masked, kept, np.take_along_axis(groups, kept, axis=1), axis=1)
    return masked.reshape(ranked.shape)


def _best(ranks: Floats, n: int) -> npt.NDArray[np.int64]:
    """Return the ids of the `n` best of each row, ascending."""
    # Stable, so that the lower id comes first among equals.
    best = np.argsort(-ranks, axis=1, kind="stable")[:, :n]
    return np.sort(best, axis=1)
