"""The hot set: routed experts kept in RAM by measured use, within a budget.

`choose_hot` and `rebalance` are pure. Rules:

- what is kept is the most used per byte, as measured (use.py), never a guess;
- the budget counts the shards in the file's own block bytes; what a kernel decodes of
  them has a budget of its own (budget.py);
- a resident expert gives way only to one used at least 25 % more, and only a few change
  at a time: reading has a price, and traffic that wavers must not make it be paid;
- what the caller names in `keep` is never evicted (nobody else could compute it);
- `aim` chooses what to keep, and nothing is read by it; a decode thread that reads an
  expert for a call hands it over (`adopt`), and `fill` reads the rest. Before there is
  an aim, what comes first stays while there is room;
- decode threads read `layer(n)`, a mapping that is replaced and never changed, so an
  expert that is evicted in mid-layer stays valid for whoever has it.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
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
    ) -> None:
        """Begin empty and without an aim; `budget_bytes` None has room for all."""
        self.sizes = sizes
        total = sum(sizes.values())
        self.budget_bytes = total if budget_bytes is None else min(total, budget_bytes)
        self._read = read
        self._aim: dict[ExpertId, None] | None = None  # hottest first
        self._resident: dict[ExpertId, ExpertWeights] = {}
        self._layers: dict[int, dict[int, ExpertWeights]] = {}
        self._n_bytes = 0
        self._lock = threading.Lock()  # of what is resident

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
        chosen = choose_hot(use, self.sizes, self.budget_bytes)
        with self._lock:
            self._aim = dict.fromkeys(chosen)

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
            belongs = self._aim is None or expert in self._aim
            return belongs and self._add(expert, weights)

    def plan(self, use: Counts, keep: Collection[ExpertId] = ()) -> Moves:
        """Return the changes that measured use asks for, evicting none of `keep`."""
        with self._lock:
            resident = dict(self._resident)
        return rebalance(use, self.sizes, resident, self.budget_bytes, keep=keep)

    def apply(self, moves: Moves) -> None:
        """Read and evict, blocking; nothing is evicted before its successor is read.

        Raises:
            ModelFileError: the file was cut short; what it gave before is resident.
        """
        try:
            self._move(moves, lambda: True)
        finally:
            with self._lock:
                self._aim = dict.fromkeys(self._resident)

    def _move(self, moves: Moves, go_on: Callable[[], bool]) -> None:
        evict = list(reversed(moves.evict))
        for expert in moves.load:
            if not go_on():
                return
            if expert in self._resident:  # adopted meanwhile
                continue
            weights = self._read(expert)
            with self._lock:
                room = self.budget_bytes - self.sizes[expert]
                while evict and self._n_bytes > room:
                    self._drop(evict.pop())
                self._add(expert, weights)
        with self._lock:
            for expert in reversed(evict):
                self._drop(expert)

    def _add(self, expert: ExpertId, weights: ExpertWeights) -> bool:
        if expert in self._resident:
            return True
        if self._n_bytes + self.sizes[expert] > self.budget_bytes:
            return False
        self._resident[expert] = weights
        self._n_bytes += self.sizes[expert]
        layer = {**self._layers.get(expert.layer, {}), expert.index: weights}
        self._layers[expert.layer] = layer
        return True

    def _drop(self, expert: ExpertId) -> None:
        if self._resident.pop(expert, None) is None:
            return
        self._n_bytes -= self.sizes[expert]
        layer = dict(self._layers[expert.layer])
        del layer[expert.index]
        self._layers[expert.layer] = layer


def _heat(use: Counts, sizes: Mapping[ExpertId, int], expert: ExpertId) -> float:
    return float(use[expert.layer, expert.index]) / sizes[expert]


def _by_heat(use: Counts, sizes: Mapping[ExpertId, int]) -> list[ExpertId]:
    """Return experts by use per byte, hottest first, ties by id."""
    return sorted(sizes, key=lambda e: (-_heat(use, sizes, e), e))
