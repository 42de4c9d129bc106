"""Which experts of a model are due for a canary, and who is asked for them.

    cycle      every expert once in a period, in a random order made anew each time
    fresh      what a worker has just reported held, soon: with two known helpers of
               other domains, any one where there are none; so a crowd that joins does
               not have all the old ones asked, and newcomers do not judge each other
    doubted    experts whose last answers differed, with the backbone's word

A backbone that has the expert is asked where fewer than two known domains are, or where
there is doubt: reading an expert costs it more than a worker. At most 256 experts go
into one canary. Pure but for the random generator that is passed in.
Source: design/06 ("a canary an hour per held expert").
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from random import Random

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import MAX_CANARY_EXPERTS
from relay.keys import PeerId

__all__ = ["TICKS", "CanaryCycle", "Due", "HolderView", "plan_round"]

TICKS = 60  # a period has so many moments at which canaries go out
_HELPERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderView:
    """One live holder as a plan needs it."""

    peer: PeerId
    domain: str
    is_known: bool  # past probation
    experts: AbstractSet[ExpertId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What one round is about."""

    cycle: frozenset[ExpertId] = frozenset()
    fresh: Mapping[PeerId, AbstractSet[ExpertId]] = field(default_factory=dict)
    doubted: frozenset[ExpertId] = frozenset()


class CanaryCycle:
    """Visits every expert of a model once in a period."""

    def __init__(self, experts: Sequence[ExpertId], random: Random) -> None:
        """Begin with a random order."""
        self._experts = list(experts)
        self._random = random
        self._left: list[ExpertId] = []
        self._moment = 0

    def take(self) -> frozenset[ExpertId]:
        """Return what one of the period's moments is about."""
        if self._moment % TICKS == 0:
            self._left = self._experts.copy()
            self._random.shuffle(self._left)
        n_moments_left = TICKS - self._moment % TICKS
        n = math.ceil(len(self._left) / n_moments_left)
        self._moment += 1
        taken, self._left = self._left[:n], self._left[n:]
        return frozenset(taken)


@dataclass(slots=True, eq=False)
class _Plan:
    """A round as it grows."""

    asked: dict[PeerId, dict[ExpertId, None]] = field(default_factory=dict)
    domains: dict[ExpertId, set[str]] = field(default_factory=dict)
    known: dict[ExpertId, set[str]] = field(default_factory=dict)

    def ask(self, holder: HolderView, experts: Iterable[ExpertId]) -> None:
        for expert in sorted(experts):
            mine = self.asked.setdefault(holder.peer, {})
            if len(mine) >= MAX_CANARY_EXPERTS:
                return
            mine[expert] = None
            self.domains.setdefault(expert, set()).add(holder.domain)
            if holder.is_known:
                self.known.setdefault(expert, set()).add(holder.domain)

    def lacks(self, expert: ExpertId, *, known: bool) -> bool:
        """Tell whether a further domain's word on an expert is wanted."""
        if known:
            return len(self.known.get(expert, ())) < _HELPERS
        return len(self.domains[expert]) < _HELPERS


def plan_round(
    due: Due,
    holders: Sequence[HolderView],
    backbones: Mapping[PeerId, Callable[[ExpertId], bool]],
) -> tuple[dict[PeerId, tuple[ExpertId, ...]], dict[PeerId, tuple[ExpertId, ...]]]:
    """Return what each holder, and each backbone, is asked for.

    `holders` in an order that nobody can foresee: helpers are the first that fit.
    `backbones` tells of each whether it has an expert.
    """
    plan, of_all = _Plan(), due.cycle | due.doubted
    for holder in holders:
        if fresh := due.fresh.get(holder.peer):
            plan.ask(holder, holder.experts & fresh)
        if not of_all.isdisjoint(holder.experts):
            plan.ask(holder, holder.experts & of_all)
    _ask_helpers(plan, due, holders)
    asked = {peer: tuple(experts) for peer, experts in plan.asked.items() if experts}
    return asked, _of_backbones(plan, due, backbones)


def _ask_helpers(plan: _Plan, due: Due, holders: Sequence[HolderView]) -> None:
    wanted = {
        expert
        for peer, experts in due.fresh.items()
        for expert in experts
        if expert in plan.asked.get(peer, {})
    }
    if not wanted:
        return
    for is_known in (True, False):
        for holder in holders:
            if holder.is_known is not is_known or wanted.isdisjoint(holder.experts):
                continue
            helps = [
                expert
                for expert in holder.experts & wanted
                if holder.domain not in plan.domains[expert]
                and plan.lacks(expert, known=is_known)
            ]
            plan.ask(holder, helps)


def _of_backbones(
    plan: _Plan,
    due: Due,
    backbones: Mapping[PeerId, Callable[[ExpertId], bool]],
) -> dict[PeerId, tuple[ExpertId, ...]]:
    wanted = [
        expert
        for expert in sorted(plan.domains)
        if expert in due.doubted or len(plan.known.get(expert, ())) < 2
    ]
    found = {
        peer: tuple([e for e in wanted if has(e)][:MAX_CANARY_EXPERTS])
        for peer, has in backbones.items()
    }
    return {peer: experts for peer, experts in found.items() if experts}
