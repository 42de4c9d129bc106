"""The model's layers with the experts at hand alone: what a self-draft computes with.

`AtHandLayers` sends a layer's rows to what is in memory at that moment alone (`route`),
and computes them with the same experts here and now, coded like anybody's (`begin`). It
never asks the network or the disk, and holds no expert beyond `begin`: one that gives
way to others is gone with all its memory (fault B15). What the rows would have wanted
is noted by layer (`foreseen`). For one thread.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.backbone.speculation.stand_in import StandIns
from p2pmoe.model.choice import AtHand
from p2pmoe.model.experts import ExpertsHere, Routing
from p2pmoe.model.native_operations import operations_for
from p2pmoe.model.products import products_for
from p2pmoe.model.router import Router

__all__ = [
    "ALONE",
    "BESIDE",
    "AtHandLayers",
    "AtHandPending",
    "ExpertsOfLayer",
    "Wanted",
]

# The experts of a layer that are in memory now, by index: `HotSet.layer` is one.
ExpertsOfLayer: TypeAlias = Callable[[int], Mapping[int, ExpertWeights]]

# Part of their weight that experts in others' places get, without a stand-in for those
# and beside one that is fully trusted (ADR 43).
ALONE: Final = 0.5
BESIDE: Final = 0.3


@dataclass(slots=True)
class Wanted:
    """What rows would be routed to if everything were at hand, by layer."""

    logits: dict[int, tuple[Router, list[Floats]]] = field(default_factory=dict)

    def add(self, layer: int, router: Router, logits: Floats) -> None:
        """Note a layer's rows: logits [n_tokens, n_expert]."""
        self.logits.setdefault(layer, (router, []))[1].append(logits)

    def rows(self, rows: slice) -> "Wanted":
        """Return what some rows of one step want."""
        own = Wanted()
        for layer, (router, steps) in self.logits.items():
            own.add(layer, router, steps[0][rows])
        return own

    def join(self, more: "Wanted") -> None:
        """Take in what further rows want."""
        for layer, (router, steps) in more.logits.items():
            self.logits.setdefault(layer, (router, []))[1].extend(steps)


class AtHandLayers:
    """An `ExpertCaller` and its routes, over what is in memory."""

    def __init__(
        self,
        experts: ExpertsOfLayer,
        kernel: Kernel,
        profile: Profile,
        stand_ins: StandIns | None = None,
    ) -> None:
        """Compute with `kernel`, results coded by `profile`.

        `stand_ins` know about what absent experts would add.
        """
        self._experts = experts
        self._profile = profile
        self._operations = operations_for(kernel)
        self._products = products_for(kernel)
        self._stand_ins = stand_ins
        # Of the layer that was routed last: its experts, and what is added to it.
        self._routed: Mapping[int, ExpertWeights] = {}
        self._added: Floats | None = None

    def at_hand(self, layer: int, n_expert: int) -> AtHand:
        """Return which experts of a layer are at hand now, bool [n_expert]."""
        return _flags(self._experts(layer), n_expert)

    def settle(self) -> None:
        """Let what passes have taught take effect, a layer at a time."""
        if self._stand_ins is not None:
            self._stand_ins.settle()

    def route(
        self, layer: int, router: Router, hidden: Floats, wanted: Wanted | None = None
    ) -> Routing:
        """Route rows among what is at hand, and note in `wanted` what they want."""
        logits = router.logits(hidden)
        if wanted is not None:
            wanted.add(layer, router, logits)
        own = None if self._stand_ins is None else self._stand_ins.layer(layer)
        trust = 0.0 if own is None else own.trust
        substitutes = ALONE + trust * (BESIDE - ALONE)
        self._routed = self._experts(layer)
        at_hand = _flags(self._routed, logits.shape[1])
        choice = router.route_among(logits, at_hand, substitutes)
        self._added = None if own is None else own.add(hidden, choice.absent)
        return Routing(experts=choice.experts, weights=choice.weights)

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> "AtHandPending":
        """Compute the layer that was routed last; NonFinite."""
        weights, self._routed = self._routed, {}
        added, self._added = self._added, None
        if routing.experts.shape[1] == 0:
            return AtHandPending(np.zeros_like(hidden) if added is None else added)
        values = self._products.routed(weights, routing.experts, hidden, self._profile)
        mixed = self._operations.weighted_sum(values, routing.weights)
        return AtHandPending(mixed if added is None else mixed + added)


@dataclass(frozen=True, slots=True)
class AtHandPending(ExpertsHere):
    """Results that are there."""

    mixed: Floats  # [n_tokens, n_embd]

    def finish(self) -> Floats:
        """Return the mixed sum."""
        return self.mixed


def _flags(experts: Mapping[int, ExpertWeights], n_expert: int) -> AtHand:
    flags = np.zeros(n_expert, np.bool_)
    flags[[index for index in experts if index < n_expert]] = True
    return flags
