"""The hot set: routed experts kept in RAM by measured use, within a budget.

`choose_hot` and `rebalance` are pure. Rules:

- what is kept is the most used per byte, as measured (use.py), never a guess;
- the budget counts the shards in the file's own block bytes; what a kernel decodes of
  them has a budget of its own (budget.py);
- a resident expert gives way only to one used at least 25 % more, and only a few change
  at a time: reading has a price, and traffic that wavers must not make it be paid;
- what the caller names in `keep` is never evicted (nobody else could compute it);
- decode threads read `layer(n)`, a mapping that is replaced and never changed, so an
  expert that is evicted in mid-layer stays valid for whoever has it.
"""

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
    """The resident experts; changed by one thread, read by any."""

    def __init__(
        self,
        sizes: Mapping[ExpertId, int],
        budget_bytes: int | None,
        read: Callable[[ExpertId], ExpertWeights],
    ) -> None:
        """Begin empty; `budget_bytes` None has room for all of `sizes`."""
        self.sizes = sizes
        total = sum(sizes.values())
        self.budget_bytes = total if budget_bytes is None else min(total, budget_bytes)
        self._read = read
        self._resident: dict[ExpertId, ExpertWeights] = {}
        self._layers: dict[int, dict[int, ExpertWeights]] = {}

    def layer(self, layer: int) -> Mapping[int, ExpertWeights]:
        """Return the resident experts of a layer by index; a snapshot."""
        return self._layers.get(layer, {})

    def layers(self) -> Mapping[int, Mapping[int, ExpertWeights]]:
        """Return the resident experts by layer and index; a snapshot of each layer."""
        return dict(self._layers)

    def resident(self) -> tuple[ExpertId, ...]:
        """Return the resident experts, ascending."""
        return tuple(sorted(self._resident))

    @property
    def n_bytes(self) -> int:
        """Bytes of the resident shards."""
        return sum(self.sizes[expert] for expert in self._resident)

    def fill(self, use: Counts) -> None:
        """Make the hottest experts resident, from nothing; reads them, blocking."""
        wanted = choose_hot(use, self.sizes, self.budget_bytes)
        self.apply(Moves(load=tuple(wanted)))

    def plan(self, use: Counts, keep: Collection[ExpertId] = ()) -> Moves:
        """Return the changes that measured use asks for, evicting none of `keep`."""
        return rebalance(use, self.sizes, self._resident, self.budget_bytes, keep=keep)

    def apply(self, moves: Moves) -> None:
        """Read and evict, blocking; nothing is evicted before its successor is read.

        Raises:
            ModelFileError: the file was cut short; what it gave before is resident.
        """
        evict = list(reversed(moves.evict))
        for expert in moves.load:
            weights = self._read(expert)
            room = self.budget_bytes - self.sizes[expert]
            while evict and self.n_bytes > room:
                self._drop(evict.pop())
            self._resident[expert] = weights
            layer = {**self._layers.get(expert.layer, {}), expert.index: weights}
            self._layers[expert.layer] = layer
        for expert in reversed(evict):
            self._drop(expert)

    def _drop(self, expert: ExpertId) -> None:
        del self._resident[expert]
        layer = dict(self._layers[expert.layer])
        del layer[expert.index]
        self._layers[expert.layer] = layer


def _heat(use: Counts, sizes: Mapping[ExpertId, int], expert: ExpertId) -> float:
    return float(use[expert.layer, expert.index]) / sizes[expert]


def _by_heat(use: Counts, sizes: Mapping[ExpertId, int]) -> list[ExpertId]:
    """Return experts by use per byte, hottest first, ties by id."""
    return sorted(sizes, key=lambda e: (-_heat(use, sizes, e), e))
