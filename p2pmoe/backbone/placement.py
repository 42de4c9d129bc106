"""Which experts to keep here so that a token costs few round trips.

A layer costs a round trip if one row needs one expert that is not at hand, so hits
that are spread evenly save hardly any: with half of each layer at hand nearly every
layer of a pass with eight drafts still waits. Whole layers at hand never wait. But the
self-draft (the model routed among what is at hand) agrees less with the full model the
more is missing anywhere, and then fewer tokens are committed in a pass. Both are
estimated from measured use, and the number of whole layers is chosen that gives the
fewest

    A = waits of a pass / tokens committed by a pass

where, with the share m of routed slots that miss in a layer, a layer waits with chance
1 - (1 - m)^(top_k * rows), and the draft agrees with exp(-sum of c m). What a miss
costs in agreement, c, is measured on the pocket model with one layer's experts left
out: 0.25 0.15 0.13 0.12 0.13 0.16 0.22 for its seven layers. The ends matter most, so
whole layers are taken from both. Of a deeper model a layer is as much less.
What room is left goes to the most used of the other layers. Pure.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.use import Counts

__all__ = [
    "PassShape",
    "Placement",
    "from_both_ends",
    "round_trips_per_token",
    "whole_layers",
    "worth_of",
]

MISSING_COSTS = 0.125  # anywhere, for a model of seven layers
END_COSTS = 0.11  # more in the first and the last layer, and fading from there
_FADE = 1.4  # to a quarter, a layer further in
_LAYERS = 7
_FIRST = 2.0**40  # times the use of others: whole layers come before all else


@dataclass(frozen=True, slots=True, kw_only=True)
class PassShape:
    """How a pass uses experts: `top_k` for each row, and `n_drafts` rows beside one."""

    top_k: int
    n_drafts: int = 8


class Placement:
    """The layers that are kept whole, chosen once use is known and kept from then on.

    A change would be worth half a layer's reads at least, and what others hold follows
    what is said to be at hand here.
    """

    def __init__(
        self, sizes: Mapping[ExpertId, int], budget_bytes: int, shape: PassShape
    ) -> None:
        """Begin without a choice, for experts of `sizes` bytes within a budget."""
        self._sizes = sizes
        self._budget_bytes = budget_bytes
        self._shape = shape
        self.whole: tuple[int, ...] | None = None

    def settle(self, use: Counts) -> None:
        """Choose by measured use, unless it was chosen before."""
        if self.whole is None:
            self.whole = whole_layers(use, self._sizes, self._budget_bytes, self._shape)

    def worth(self, use: Counts) -> Counts:
        """Return what keeping each expert is worth; plain use before `settle`."""
        return worth_of(use, self.whole or ())


def whole_layers(
    use: Counts, sizes: Mapping[ExpertId, int], budget_bytes: int, shape: PassShape
) -> tuple[int, ...]:
    """Return the layers to keep whole, ascending; none if spreading is as good.

    `use` [n_layer, n_expert] counts routed rows; `sizes` are those of all experts in
    bytes, of which `budget_bytes` may be kept.
    """
    layers = from_both_ends(sorted({expert.layer for expert in sizes}))
    weights = dict.fromkeys(layers, 0)
    for expert, n_bytes in sizes.items():
        weights[expert.layer] += n_bytes
    best: tuple[int, ...] = ()
    least = _trips(use, sizes, budget_bytes, best, shape)
    left = budget_bytes
    for n, layer in enumerate(layers, 1):
        left -= weights[layer]
        if left < 0:
            break
        whole = tuple(sorted(layers[:n]))
        trips = _trips(use, sizes, budget_bytes, whole, shape)
        if trips < least:
            best, least = whole, trips
    return best


def from_both_ends(layers: Sequence[int]) -> list[int]:
    """Return the last, the first, the last but one, the second, and so on."""
    places = range(len(layers))
    last = len(layers) - 1
    in_order = sorted(places, key=lambda place: (min(place, last - place), -place))
    return [layers[place] for place in in_order]


def worth_of(use: Counts, whole: Sequence[int]) -> Counts:
    """Return `use` such that the experts of whole layers come before all others."""
    worth = use.copy()
    if len(whole):
        worth[list(whole)] += _FIRST * max(1.0, float(use.max(initial=0.0)))
    return worth


def round_trips_per_token(missing: Sequence[float], shape: PassShape) -> float:
    """Return the expected A, from the share of each layer's routed slots that misses.

    `missing` holds one share, 0 to 1, for each layer with routed experts.
    """
    slots = shape.top_k * (1 + shape.n_drafts)
    waits = sum(1.0 - (1.0 - share) ** slots for share in missing)
    n = len(missing)
    costs = sum(share * _cost(place, n) for place, share in enumerate(missing))
    agrees = math.exp(-costs)
    committed = sum(agrees**depth for depth in range(shape.n_drafts + 1))
    return waits / committed


def _cost(place: int, n_layers: int) -> float:
    """Return what missing all of one layer's experts costs in agreement."""
    part = _LAYERS / n_layers
    from_end = min(place, n_layers - 1 - place) * part
    return part * (MISSING_COSTS + END_COSTS * math.exp(-_FADE * from_end))


def _trips(
    use: Counts,
    sizes: Mapping[ExpertId, int],
    budget_bytes: int,
    whole: Sequence[int],
    shape: PassShape,
) -> float:
    """Return the expected A if these layers are whole and the rest goes by heat."""
    worth = worth_of(use, whole)
    kept = np.zeros(use.shape, np.bool_)
    left = budget_bytes
    by_heat = sorted(sizes, key=lambda e: (-worth[e.layer, e.index] / sizes[e], e))
    for expert in by_heat:
        if sizes[expert] <= left:
            kept[expert.layer, expert.index] = True
            left -= sizes[expert]
    missing = []
    for layer in sorted({expert.layer for expert in sizes}):
        seen = use[layer] + 1.0  # a row each: what few tokens left out is not unused
        missing.append(float(seen[~kept[layer]].sum() / seen.sum()))
    return round_trips_per_token(missing, shape)
