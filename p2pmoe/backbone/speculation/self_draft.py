"""The model drafts for itself, with the experts that are in memory: no trips, no disk.

Each `advance` runs one step over all sequences that want another token, routed among
the experts at hand (restricted.py), and draws as the request itself would draw at that
position: the same settings and the same noise, so that a sampled draft agrees as often
as the two distributions do. Keys and values go behind the committed ones through a view
of the sequence's own cache, where verification overwrites them.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.backbone.speculation.drafts import Draft, DraftSource, DraftWish
from p2pmoe.backbone.speculation.growth import Growth
from p2pmoe.backbone.speculation.restricted import (
    AtHandLayers,
    ExpertsOfLayer,
    Wanted,
)
from p2pmoe.backbone.speculation.stand_in import StandIns
from p2pmoe.model.experts import Routing
from p2pmoe.model.logits import Logits
from p2pmoe.model.model import Model
from p2pmoe.model.router import Router
from p2pmoe.model.step import SequencePart

__all__ = ["N_FORESEEN", "SelfDraft", "SelfDrafting"]

N_FORESEEN = 7  # experts that a row is expected to want of a layer
_FADE = 0.5  # how much less likely it wants each than the one before


class SelfDraft:
    """A `Drafter`: the model, restricted to what is at hand."""

    source = DraftSource.SELF

    def __init__(
        self,
        model: Model,
        experts: ExpertsOfLayer,
        *,
        kernel: Kernel,
        profile: Profile = Profile.R16,
        stand_ins: StandIns | None = None,
    ) -> None:
        """Draft with `experts`, by layer those in memory now (`HotSet.layer`)."""
        self.model = model
        self.layers = AtHandLayers(experts, kernel, profile, stand_ins)

    def begin(self, wishes: Sequence[DraftWish]) -> "SelfDrafting":
        """Begin; nothing is computed before `advance`."""
        return SelfDrafting(self, wishes)

    def forget(self, number: int) -> None:
        """Nothing is kept of a sequence."""

    def run(
        self, parts: Sequence[SequencePart], wanted: Wanted | None = None
    ) -> list[Floats]:
        """Run a step among the experts at hand; NonFinite, and as `Model.step`."""

        def routes(layer: int, router: Router, hidden: Floats) -> Routing:
            return self.layers.route(layer, router, hidden, wanted)

        return self.model.walk(parts, self.layers, routes).run()

    def foresee(
        self, wishes: Sequence[DraftWish], drafts: Sequence[tuple[int, ...]]
    ) -> list[Mapping[int, tuple[int, ...]]]:
        """Return `Draft.foreseen` for each wish's last token and others' drafts."""
        wanted, parts = Wanted(), []
        for wish, draft in zip(wishes, drafts, strict=True):
            view = wish.cache.view(wish.cache.length)
            tokens = (*wish.tokens[-1:], *draft)[: view.capacity - view.length]
            parts.append(SequencePart(tokens, view, Logits.NONE))
        self.run(parts, wanted)
        ends = list(itertools.accumulate(len(part.tokens) for part in parts))
        return [
            self.missing(wanted.rows(slice(end - len(part.tokens), end)))
            for part, end in zip(parts, ends, strict=True)
        ]

    def missing(self, wanted: Wanted) -> Mapping[int, tuple[int, ...]]:
        """Return by layer what rows likely want and is not at hand."""
        return {
            layer: self._missing(layer, router.foresee(np.concatenate(rows)))
            for layer, (router, rows) in wanted.logits.items()
        }

    def _missing(self, layer: int, ranks: Floats) -> tuple[int, ...]:
        """Return those not at hand among each row's best, the likeliest first."""
        n_expert = ranks.shape[1]
        best = np.argsort(-ranks, axis=1, kind="stable")[:, :N_FORESEEN]
        # A row's first choice weighs most, and what several rows want adds up.
        shares = np.broadcast_to(_FADE ** np.arange(best.shape[1]), best.shape)
        weight = np.bincount(best.ravel(), shares.ravel(), n_expert)
        weight[self.layers.at_hand(layer, n_expert)] = 0.0
        order = np.argsort(-weight, kind="stable")
        return tuple(int(expert) for expert in order if weight[expert] > 0.0)


class SelfDrafting:
    """Drafting under way for some sequences."""

    def __init__(self, drafter: SelfDraft, wishes: Sequence[DraftWish]) -> None:
        """Hold wishes; their caches are written behind their length alone."""
        self._drafter = drafter
        self._growing = [_Growing(wish) for wish in wishes]

    def advance(self) -> bool:
        """Draft one more token of each sequence that wants one; False if none does.

        Raises NonFinite, and what else the model raises.
        """
        active = [each for each in self._growing if each.growth.wants_more]
        if not active:
            return False
        self._drafter.layers.settle()
        wanted = Wanted()
        parts = [SequencePart(each.growth.last, each.view) for each in active]
        logits = self._drafter.run(parts, wanted)
        for row, (each, own) in enumerate(zip(active, logits, strict=True)):
            each.growth.draw(own[-1])
            each.wanted.join(wanted.rows(slice(row, row + 1)))
        return True

    def drafts(self) -> list[Draft]:
        """Return what was drafted so far, one for each wish."""
        return [
            replace(
                each.growth.draft(DraftSource.SELF),
                foreseen=_Foreseen(self._drafter, each.wanted),
            )
            for each in self._growing
        ]


class _Foreseen(Mapping[int, tuple[int, ...]]):
    """`Draft.foreseen`, found out when somebody looks: most rounds fetch nothing."""

    def __init__(self, drafter: SelfDraft, wanted: Wanted) -> None:
        self._drafter = drafter
        self._wanted = wanted

    @functools.cached_property
    def _found(self) -> Mapping[int, tuple[int, ...]]:
        return self._drafter.missing(self._wanted)

    def __getitem__(self, layer: int) -> tuple[int, ...]:
        return self._found[layer]

    def __iter__(self) -> Iterator[int]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class _Growing:
    """One sequence's draft, the view that it is written to, and what it wants."""

    def __init__(self, wish: DraftWish) -> None:
        self.view = wish.cache.view(wish.cache.length)
        self.growth = Growth(wish, self.view.capacity - self.view.length)
        self.wanted = Wanted()
