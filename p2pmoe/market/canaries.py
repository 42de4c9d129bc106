"""Canaries of all models: when a round goes out, and what it found.

Every expert is asked for once in a period, at sixty moments of it; what a worker has
newly ready within seconds; what is in doubt at the next moment, three times at most.
One round of a model is out at a time; it closes when all have answered or its time is
over. At most 512 newcomers are asked in one.

What comes out is a `Finding` for each expert: judged, and who was silent; standing is
kept by others. Pure but for the random generator that is passed in; times are monotonic
seconds. Source: design/06, "Verification".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Canary, CanaryAnswer
from p2pmoe.market.canary_plan import (
    TICKS,
    CanaryCycle,
    Due,
    HolderView,
    plan_round,
)
from p2pmoe.market.canary_round import CanaryRound
from p2pmoe.market.outgoing import Send
from relay.keys import PeerId

__all__ = ["Canaries", "CanarySettings", "Listed"]

_SOON_S = 1.0  # those who report within it are asked together
_GRACE_S = 3.0  # for the way, beyond a canary's own time
_SEED_BYTES = 32
_MAX_DOUBTS = 3
_MAX_FRESH = 512  # newcomers in one round
_R32 = 0  # results are hashed as plain floats


@dataclass(frozen=True, slots=True, kw_only=True)
class CanarySettings:
    """period_s: every expert once in it; 0 for no canaries. within_s: to answer in."""

    period_s: float = 3600.0
    within_s: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One model as it stands now: live holders, and the backbones that list it.

    Of very many holders it is a part, another each time. Backbones tell of each expert
    whether they have it.
    """

    holders: Sequence[HolderView]
    backbones: Mapping[PeerId, Callable[[ExpertId], bool]]


@dataclass(slots=True, kw_only=True, eq=False)
class _Model:
    """What is planned for one manifest."""

    cycle: CanaryCycle
    cycle_at: float
    fresh: dict[PeerId, set[ExpertId]] = field(default_factory=dict)
    fresh_at: float | None = None
    doubts: dict[ExpertId, int] = field(default_factory=dict)
    round: CanaryRound | None = None

    @property
    def due_at(self) -> float:
        """When there is something to do next."""
        if self.round is not None:
            return self.round.closes_at
        return min(self.cycle_at, self.fresh_at or self.cycle_at)


class Canaries:
    """The rounds of all manifests."""

    def __init__(
        self,
        settings: CanarySettings,
        random: Random,
        listed: Callable[[bytes], Listed | None],
    ) -> None:
        """Ask `listed` for a manifest when a round of it goes out."""
        self._settings = settings
        self._random = random
        self._listed = listed
        self._models: dict[bytes, _Model] = {}
        self._number = random.getrandbits(48)

    def begin(
        self, manifest_hash: bytes, experts: Sequence[ExpertId], now: float
    ) -> None:
        """A model is listed: its experts are visited from now on."""
        if self._settings.period_s and manifest_hash not in self._models:
            self._models[manifest_hash] = _Model(
                cycle=CanaryCycle(experts, self._random),
                cycle_at=now + self._tick_s,
            )

    def held(
        self,
        manifest_hash: bytes,
        peer: PeerId,
        experts: Sequence[ExpertId],
        now: float,
    ) -> None:
        """A worker has experts newly ready: have it prove them soon."""
        model = self._models.get(manifest_hash)
        if model is None or not experts:
            return
        model.fresh.setdefault(peer, set()).update(experts)
        if model.fresh_at is None:
            model.fresh_at = now + _SOON_S

    def answered(self, peer: PeerId, answer: CanaryAnswer) -> None:
        """Take an answer in; `tick` sees what follows."""
        for model in self._models.values():
            if model.round is not None and model.round.number == answer.number:
                model.round.answered(peer, answer)
                return

    def excuse(self, peer: PeerId) -> None:
        """The network lost this peer, or what was said to it."""
        for model in self._models.values():
            model.fresh.pop(peer, None)
            if model.round is not None:
                model.round.excuse(peer)

    def doubt(self, manifest_hash: bytes, expert: ExpertId) -> None:
        """An expert's answers could not be judged: ask again, with the backbone."""
        model = self._models.get(manifest_hash)
        if model is None:
            return
        times = model.doubts.get(expert, 0) + 1
        model.doubts[expert] = times
        if times > _MAX_DOUBTS:
            del model.doubts[expert]

    def settled(self, manifest_hash: bytes, expert: ExpertId) -> None:
        """There is no doubt about this expert any more."""
        model = self._models.get(manifest_hash)
        if model is not None:
            model.doubts.pop(expert, None)

    def take_closed(self, now: float) -> list[CanaryRound]:
        """Return the rounds that are over, and forget them."""
        closed = []
        for model in self._models.values():
            open_round = model.round
            if open_round is None:
                continue
            if open_round.is_answered or now >= open_round.closes_at:
                closed.append(open_round)
                model.round = None
        return closed

    def tick(self, now: float) -> list[Send]:
        """Return the canaries that go out now."""
        sends: list[Send] = []
        for name, model in list(self._models.items()):
            if model.round is None and now >= model.due_at:
                sends += self._open(name, model, now)
        return sends

    def next_due(self) -> float | None:
        """Return when `tick` or `take_closed` has something to do."""
        moments = []
        for model in self._models.values():
            is_over = model.round is not None and model.round.is_answered
            moments.append(float("-inf") if is_over else model.due_at)
        return min(moments, default=None)

    @property
    def _tick_s(self) -> float:
        return self._settings.period_s / TICKS

    def _open(self, name: bytes, model: _Model, now: float) -> list[Send]:
        """Begin a round of one model, if there is anybody to ask."""
        listed = self._listed(name)
        if listed is None:
            del self._models[name]
            return []
        due = self._due(model, now)
        model.fresh_at = None
        holders = list(listed.holders)
        self._random.shuffle(holders)
        asked, backbones = plan_round(due, holders, listed.backbones)
        self._keep_left_over(model, due, asked, now)
        if not asked:
            return []
        self._number += 1
        model.round = CanaryRound(
            number=self._number,
            manifest_hash=name,
            seed=self._random.randbytes(_SEED_BYTES),
            opened_at=now,
            closes_at=now + self._settings.within_s + _GRACE_S,
            asked=asked,
            backbones=backbones,
        )
        return list(self._sends(model.round))

    def _due(self, model: _Model, now: float) -> Due:
        cycle: frozenset[ExpertId] = frozenset()
        if now >= model.cycle_at:
            cycle = model.cycle.take()
            model.cycle_at = now + self._tick_s
        fresh = dict(islice(model.fresh.items(), _MAX_FRESH))
        return Due(cycle=cycle, fresh=fresh, doubted=frozenset(model.doubts))

    def _keep_left_over(
        self,
        model: _Model,
        due: Due,
        asked: Mapping[PeerId, tuple[ExpertId, ...]],
        now: float,
    ) -> None:
        """Leave fresh only what found no room; what is not held any more goes too."""
        for peer in due.fresh:
            left = model.fresh.pop(peer) - set(asked.get(peer, ()))
            if left and peer in asked:
                model.fresh[peer] = left
        if model.fresh:
            model.fresh_at = now + _SOON_S

    def _sends(self, opened: CanaryRound) -> Iterator[Send]:
        for peers in (opened.asked, opened.backbones):
            for peer, experts in peers.items():
                yield Send(
                    peer,
                    Canary(
                        number=opened.number,
                        manifest_hash=opened.manifest_hash,
                        experts=experts,
                        profile=_R32,
                        n_rows=1,
                        within_ms=int(1000 * self._settings.within_s),
                        seed=opened.seed,
                        rows=b"",
                    ),
                )
