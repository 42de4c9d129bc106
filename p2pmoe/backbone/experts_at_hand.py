"""The routed experts in memory, by measured use, within a budget.

`choose_hot` and `rebalance` are pure. Rules:

- one set within one budget of bytes: what is *aimed* at (kept on purpose: others know
  in a network that it is at hand here) and, in the room that leaves, what was read for
  calls and is expected to be needed soonest (next_use.py);
- what is aimed at is the most used per byte, as measured (use.py), never a guess, and
  takes no more than its part of the budget;
- the budget counts the shards in the file's own block bytes; what a kernel decodes of
  them has a budget of its own (budget.py);
- an aim gives way only to an expert used at least 25 % more, and only a few change at
  a time: reading has a price, and traffic that wavers must not make it be paid;
- what the caller names in `keep` is never evicted (nobody else could compute it);
- `aim` chooses what to keep, and nothing is read by it; a decode thread that reads an
  expert for a call hands it over (`adopt`): it stays if those it would take the place
  of are needed later than it, and are not aimed at; `fill` reads the rest;
- decode threads read `layer(n)`, a mapping that is replaced and never changed, so an
  expert that is evicted in mid-layer stays valid for whoever has it.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.next_use import NextUse
from p2pmoe.backbone.use import Counts

__all__ = ["HotSet", "Moves", "choose_hot", "rebalance"]

GAIN = 1.25
MAX_MOVES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """What a rebalancing changes."""

    evict: tuple[ExpertId, ...] = ()
    load: tuple[ExpertId, ...] = ()


def choose_hot(
    use: Counts, sizes: Mapping[ExpertId, int], budget_bytes: int
) -> list[ExpertId]:
    """Return the experts to keep, hottest first, whose sizes fit the budget."""
    chosen = []
    left = budget_bytes
    for expert in _by_heat(use, sizes):
        if sizes[expert] <= left:
            chosen.append(expert)
            left -= sizes[expert]
    return chosen


def rebalance(
    use: Counts,
    sizes: Mapping[ExpertId, int],
    resident: Mapping[ExpertId, ExpertWeights],
    budget_bytes: int,
    max_moves: int = MAX_MOVES,
    keep: Collection[ExpertId] = (),
) -> Moves:
    """Return the few changes that are worth their reads; `keep` stays resident."""
    left = budget_bytes - sum(sizes[expert] for expert in resident)
    may_go = {expert: sizes[expert] for expert in resident if expert not in keep}
    coldest = _by_heat(use, may_go)[::-1]
    evict: list[ExpertId] = []
    load: list[ExpertId] = []
    outside = {e: n for e, n in sizes.items() if e not in resident}
    for candidate in _by_heat(use, outside):
        if len(load) >= max_moves:
            break
        gone: list[ExpertId] = []
        room = left
        heat = _heat(use, sizes, candidate)
        while room < sizes[candidate] and len(gone) < len(coldest):
            victim = coldest[len(gone)]
            if not heat > GAIN * _heat(use, sizes, victim):
                break
            gone.append(victim)
            room += sizes[victim]
        if room < sizes[candidate]:
            break
        del coldest[: len(gone)]
        evict += gone
        load.append(candidate)
        left = room - sizes[candidate]
    return Moves(evict=tuple(evict), load=tuple(load))


class HotSet:
    """The resident experts; read and adopted into by any thread, moved by one."""

    def __init__(
        self,
        sizes: Mapping[ExpertId, int],
        budget_bytes: int | None,
        read: Callable[[ExpertId], ExpertWeights],
        *,
        aimed_bytes: int | None = None,
        next_use: NextUse | None = None,
    ) -> None:
        """Begin empty and without an aim; `budget_bytes` None has room for all.

        An aim takes at most `aimed_bytes`, None: the budget. Without `next_use` what
        is adopted takes no other's place.
        """
        self.sizes = sizes
        total = sum(sizes.values())
        self.budget_bytes = total if budget_bytes is None else min(total, budget_bytes)
        self._aimed_bytes = aimed_bytes
        self._read = read
        self._aim: dict[ExpertId, None] | None = None  # hottest first
        self._resident: dict[ExpertId, ExpertWeights] = {}
        self._layers: dict[int, dict[int, ExpertWeights]] = {}
        self._ranks = None if next_use is None else _Ranks(sizes, next_use)
        self._n_bytes = 0
        self._lock = threading.Lock()  # of what is resident
        self.n_evicted = 0

    def layer(self, layer: int) -> Mapping[int, ExpertWeights]:
        """Return the resident experts of a layer by index; a snapshot."""
        return self._layers.get(layer, {})

    def resident(self) -> tuple[ExpertId, ...]:
        """Return the resident experts, ascending."""
        with self._lock:
            return tuple(sorted(self._resident))

    def at_hand(self) -> tuple[ExpertId, ...]:
        """Return the experts that are to be resident, ascending; before an aim, are."""
        with self._lock:
            return tuple(sorted(self._resident if self._aim is None else self._aim))

    def get(self, expert: ExpertId) -> ExpertWeights | None:
        """Return an expert if it is resident."""
        return self._resident.get(expert)

    def foresee(self, layer: int, experts: npt.NDArray[np.int64]) -> None:
        """Note what this step is likely to need yet: it is kept till then."""
        if self._ranks is not None:
            self._ranks.next_use.foresee(layer, experts)

    def layers(self) -> Mapping[int, Collection[int]]:
        """Return the indices of the experts at hand by layer."""
        found: dict[int, set[int]] = {}
        for expert in self.at_hand():
            found.setdefault(expert.layer, set()).add(expert.index)
        return found

    @property
    def n_bytes(self) -> int:
        """Bytes of the resident shards."""
        return self._n_bytes

    @property
    def holds_all(self) -> bool:
        """Whether the budget has room for every expert."""
        return self.budget_bytes >= sum(self.sizes.values())

    def aim(self, use: Counts) -> None:
        """Choose the hottest experts within the budget to be kept; reads nothing."""
        chosen = choose_hot(use, self.sizes, self._most_aimed())
        with self._lock:
            self._set_aim(dict.fromkeys(chosen))

    def _most_aimed(self) -> int:
        most = self._aimed_bytes
        return self.budget_bytes if most is None else min(most, self.budget_bytes)

    def warm(
        self,
        use: Counts,
        go_on: Callable[[], bool] = lambda: True,
        pays: Callable[[float], bool] = lambda _: True,
    ) -> None:
        """Read the hottest experts into free room, blocking, while `go_on()`.

        Nothing is evicted and nothing aimed at; an expert whose use does not pay for
        the read is left out. ModelFileError as `fill`.
        """
        for expert in choose_hot(use, self.sizes, self.budget_bytes):
            if not go_on() or not pays(float(use[expert.layer, expert.index])):
                return
            if expert in self._resident:
                continue
            if self._n_bytes + self.sizes[expert] > self.budget_bytes:
                return
            weights = self._read(expert)
            with self._lock:
                self._add(expert, weights)

    def fill(self, use: Counts, go_on: Callable[[], bool] = lambda: True) -> None:
        """Make the hottest experts resident; reads them, blocking, while `go_on()`.

        Raises:
            ModelFileError: one cannot be read, or holds no numbers.
        """
        self.aim(use)
        with self._lock:
            aim = self._aim or {}
            wanted = [expert for expert in aim if expert not in self._resident]
            others = {e: self.sizes[e] for e in self._resident if e not in aim}
        coldest = _by_heat(use, others)[::-1]
        self._move(Moves(evict=tuple(coldest), load=tuple(wanted)), go_on)

    def adopt(self, expert: ExpertId, weights: ExpertWeights) -> bool:
        """Keep an expert that was read for a call, if it belongs here; say so."""
        with self._lock:
            aim = self._aim
            if self._ranks is None and aim is not None and expert not in aim:
                return False
            if expert not in self._resident and not self._make_room(expert):
                return False
            return self._add(expert, weights)

    def has_place(self, expert: ExpertId) -> bool:
        """Whether `adopt` would keep an expert that is not here; changes nothing."""
        with self._lock:
            lacking = self._n_bytes + self.sizes[expert] - self.budget_bytes
            if expert in self._resident:
                return False
            if self._ranks is None:
                is_aimed = self._aim is None or expert in self._aim
                return is_aimed and lacking <= 0
            return lacking <= 0 or (
                self.sizes[expert] <= self.budget_bytes
                and bool(self._ranks.victims(expert, lacking, wanted=False))
            )

    def plan(
        self,
        use: Counts,
        keep: Collection[ExpertId] = (),
        pays: Callable[[float], bool] = lambda _: True,
    ) -> Moves:
        """Return the changes that measured use asks for, evicting none of `keep`.

        An expert whose use does not pay for the read stays where it is.
        """
        with self._lock:
            aim = self._resident if self._aim is None else self._aim
            resident = {e: w for e, w in self._resident.items() if e in aim}
        sizes = {
            e: n
            for e, n in self.sizes.items()
            if e in resident or pays(float(use[e.layer, e.index]))
        }
        return rebalance(use, sizes, resident, self._most_aimed(), keep=keep)

    def apply(self, moves: Moves) -> None:
        """Read and evict, blocking; nothing is evicted before its successor is read.

        Raises:
            ModelFileError: the file was cut short; what it gave before is resident.
        """
        with self._lock:
            aim = self._resident if self._aim is None else self._aim
            aimed = dict.fromkeys((*moves.load, *aim))
        try:
            self._move(moves, lambda: True)
        finally:
            with self._lock:
                gone = set(moves.evict) - set(self._resident)
                left = (e for e in aimed if e in self._resident and e not in gone)
                self._set_aim(dict.fromkeys(left))

    def _move(self, moves: Moves, go_on: Callable[[], bool]) -> None:
        evict = list(reversed(moves.evict))
        for expert in moves.load:
            if not go_on():
                return
            weights = self._resident.get(expert) or self._read(expert)
            with self._lock:
                room = self.budget_bytes - self.sizes[expert]
                while evict and self._n_bytes > room:
                    self._drop(evict.pop())
                if self._make_room(expert, wanted=True):
                    self._add(expert, weights)
        with self._lock:
            for expert in reversed(evict):
                self._drop(expert)

    def _set_aim(self, aim: dict[ExpertId, None]) -> None:
        self._aim = aim
        if self._ranks is not None:
            self._ranks.set_aim(aim)

    def _make_room(self, expert: ExpertId, *, wanted: bool = False) -> bool:
        """Evict what is needed later than an expert, if that makes room for it."""
        lacking = self._n_bytes + self.sizes[expert] - self.budget_bytes
        if lacking <= 0:
            return True
        if self._ranks is None or self.sizes[expert] > self.budget_bytes:
            return False
        wanted = wanted or expert in (self._aim or {})
        gone = self._ranks.victims(expert, lacking, wanted=wanted)
        for victim in gone:
            self._drop(victim)
        self.n_evicted += len(gone)
        return bool(gone)

    def _add(self, expert: ExpertId, weights: ExpertWeights) -> bool:
        if expert in self._resident:
            return True
        if self._n_bytes + self.sizes[expert] > self.budget_bytes:
            return False
        self._resident[expert] = weights
        if self._ranks is not None:
            self._ranks.set_resident(expert, is_resident=True)
        self._n_bytes += self.sizes[expert]
        layer = {**self._layers.get(expert.layer, {}), expert.index: weights}
        self._layers[expert.layer] = layer
        return True

    def _drop(self, expert: ExpertId) -> None:
        if self._resident.pop(expert, None) is None:
            return
        if self._ranks is not None:
            self._ranks.set_resident(expert, is_resident=False)
        self._n_bytes -= self.sizes[expert]
        layer = dict(self._layers[expert.layer])
        del layer[expert.index]
        self._layers[expert.layer] = layer


class _Ranks:
    """Whose place a newcomer takes: that of what is needed last, by bytes."""

    def __init__(self, sizes: Mapping[ExpertId, int], next_use: NextUse) -> None:
        self.next_use = next_use
        shape = next_use.distances().shape
        self._sizes = np.zeros(shape)
        for expert, n_bytes in sizes.items():
            self._sizes[expert.layer, expert.index] = n_bytes
        self._resident = np.zeros(shape, np.bool_)
        self._aimed = np.zeros(shape, np.bool_)

    def set_resident(self, expert: ExpertId, *, is_resident: bool) -> None:
        self._resident[expert.layer, expert.index] = is_resident

    def set_aim(self, aim: Iterable[ExpertId]) -> None:
        aimed = np.zeros_like(self._aimed)
        for expert in aim:
            aimed[expert.layer, expert.index] = True
        self._aimed = aimed

    def victims(
        self, expert: ExpertId, lacking: float, *, wanted: bool
    ) -> list[ExpertId]:
        """Return the experts to evict for `lacking` bytes; none if it is not worth it.

        `wanted`: whatever they are worth. Of equals the higher id goes first.
        """
        costs = self.next_use.distances() * self._sizes
        own = 0.0 if wanted else costs[expert.layer, expert.index]
        costs[~self._resident | self._aimed] = -1.0
        n_expert = costs.shape[1]
        backwards = costs.ravel()[::-1]
        gone: list[ExpertId] = []
        while lacking > 0:
            at = int(backwards.argmax())
            if backwards[at] <= own:
                return []
            layer, index = divmod(len(backwards) - 1 - at, n_expert)
            gone.append(ExpertId(layer, index))
            lacking -= self._sizes[layer, index]
            backwards[at] = -1.0
        return gone


def _heat(use: Counts, sizes: Mapping[ExpertId, int], expert: ExpertId) -> float:
    return float(use[expert.layer, expert.index]) / sizes[expert]


def _by_heat(use: Counts, sizes: Mapping[ExpertId, int]) -> list[ExpertId]:
    """Return experts by use per byte, hottest first, ties by id."""
    return sorted(sizes, key=lambda e: (-_heat(use, sizes, e), e))
