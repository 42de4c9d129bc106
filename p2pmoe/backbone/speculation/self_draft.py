"""The model drafts for itself, with the experts that are in memory: no trips, no disk.

Each `advance` runs one step over all sequences that want another token, routed among
the experts at hand (restricted.py), and draws as the request itself would draw at that
position: the same settings and the same noise, so that a sampled draft agrees as often
as the two distributions do. Keys and values go behind the committed ones through a view
of the sequence's own cache, where verification overwrites them.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.backbone.speculation.drafts import Draft, DraftSource, DraftWish
from p2pmoe.backbone.speculation.restricted import (
    AtHandLayers,
    ExpertsOfLayer,
    Wanted,
)
from p2pmoe.model.choice import AtHand
from p2pmoe.model.experts import Routing
from p2pmoe.model.model import Model
from p2pmoe.model.router import Router
from p2pmoe.model.sampler import sample
from p2pmoe.model.step import SequencePart

__all__ = ["N_FORESEEN", "SelfDraft", "SelfDrafting"]

N_FORESEEN = 7  # experts that a row is expected to want of a layer


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
        n_foreseen: int = N_FORESEEN,
    ) -> None:
        """Draft with `experts`, by layer those in memory now (`HotSet.layer`)."""
        self.model = model
        self.layers = AtHandLayers(experts, kernel, profile)
        self.n_foreseen = n_foreseen

    def begin(self, wishes: Sequence[DraftWish]) -> "SelfDrafting":
        """Begin; nothing is computed before `advance`."""
        return SelfDrafting(self, wishes)

    def forget(self, number: int) -> None:
        """Nothing is kept of a sequence."""


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
        active = [each for each in self._growing if each.wants_more]
        if not active:
            return False
        layers = self._drafter.layers
        wanted = Wanted()

        def routes(layer: int, router: Router, hidden: Floats) -> Routing:
            return layers.route(layer, router, hidden, wanted)

        parts = [SequencePart(each.tokens[-1:], each.view) for each in active]
        logits = self._drafter.model.walk(parts, layers, routes).run()
        for row, (each, own) in enumerate(zip(active, logits, strict=True)):
            each.draw(own[-1])
            each.note(wanted, row)
        return True

    def drafts(self) -> list[Draft]:
        """Return what was drafted so far, one for each wish."""
        n_foreseen = self._drafter.n_foreseen
        at_hand = self._drafter.layers.snapshot
        return [
            Draft(
                source=DraftSource.SELF,
                tokens=tuple(each.drawn),
                chances=tuple(each.chances),
                foreseen=_foreseen(each.wanted, n_foreseen, at_hand),
            )
            for each in self._growing
        ]


class _Growing:
    """One sequence's draft."""

    def __init__(self, wish: DraftWish) -> None:
        self.wish = wish
        self.tokens = list(wish.tokens)
        self.view = wish.cache.view(wish.cache.length)
        self.drawn: list[int] = []
        self.chances: list[float] = []
        self.wanted = Wanted()

    @property
    def wants_more(self) -> bool:
        has_room = self.view.length < self.view.capacity
        return len(self.drawn) < self.wish.n and has_room

    def draw(self, logits: Floats) -> None:
        token = sample(logits, self.wish.sampling, self.tokens, len(self.tokens))
        shifted = logits - logits[token]
        self.chances.append(float(1.0 / np.exp(np.minimum(shifted, 80.0)).sum()))
        self.tokens.append(token)
        self.drawn.append(token)

    def note(self, step: Wanted, row: int) -> None:
        for layer, (router, rows) in step.logits.items():
            self.wanted.add(layer, router, rows[0][row : row + 1])


def _foreseen(
    wanted: Wanted, n: int, at_hand: Callable[[int, int], AtHand]
) -> Mapping[int, tuple[int, ...]]:
    """Return by layer the experts not at hand among each row's `n` best."""
    found = {}
    for layer, (router, rows) in wanted.logits.items():
        ranks = router.foresee(np.concatenate(rows))
        n_expert = ranks.shape[1]
        flags = at_hand(layer, n_expert)
        best = np.argsort(-ranks, axis=1, kind="stable")[:, :n]
        # A row's first choice weighs most, and what several rows want sums up.
        shares = np.broadcast_to(0.5 ** np.arange(best.shape[1]), best.shape)
        weight = np.bincount(best.ravel(), shares.ravel(), n_expert)
        weight[flags] = 0.0
        order = np.argsort(-weight, kind="stable")
        found[layer] = tuple(int(e) for e in order if weight[e] > 0.0)
    return found
