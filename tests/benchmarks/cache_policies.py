"""Which experts stay in memory: policies to compare with ours, and the best there is.

Each is asked expert by expert, in the order of a trace, and says if it was in memory.
`Belady` knows the future: it evicts what is needed last, the newcomer included.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable

import numpy as np

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.experts_at_hand import HotSet, Moves, rebalance
from p2pmoe.backbone.use import UseCounts
from tests.benchmarks.routing_traces import Trace

__all__ = ["POLICIES", "Product", "belady", "hits"]

Policy = Callable[[Trace, int], float]
_LOOK = 300  # tokens between two looks of the hot set, 30 s at 10 tokens a second


def hits(found: Iterable[bool]) -> float:
    """Return the share that was in memory."""
    marks = np.fromiter(found, np.bool_)
    return float(marks.mean())


def belady(trace: Trace, room: int) -> float:
    """Return the hits of the policy that knows what comes."""
    flat = trace.ids.ravel().tolist()
    n, following, last = len(flat), [0] * len(flat), {}
    for at in range(n - 1, -1, -1):
        following[at] = last.get(flat[at], 2 * n)
        last[flat[at]] = at
    cached: dict[int, int] = {}
    latest: list[tuple[int, int]] = []
    n_hits = 0
    for expert, after in zip(flat, following, strict=True):
        n_hits += expert in cached
        cached[expert] = after
        heapq.heappush(latest, (-after, expert))
        while len(cached) > room:
            when, victim = heapq.heappop(latest)
            if cached.get(victim) == -when:
                del cached[victim]
    return n_hits / n


def lru(trace: Trace, room: int) -> float:
    """Least recently used first out."""
    return hits(_recent(trace.ids.ravel().tolist(), room))


def lru_by_layer(trace: Trace, room: int) -> float:
    """The same with a room of its own for each layer."""
    ids = trace.ids
    each = room // ids.shape[1]
    found = [
        list(_recent(ids[:, layer].ravel().tolist(), each))
        for layer in range(ids.shape[1])
    ]
    return hits(mark for marks in found for mark in marks)


def _recent(flat: Iterable[int], room: int) -> Iterable[bool]:
    kept: OrderedDict[int, None] = OrderedDict()
    for expert in flat:
        yield expert in kept
        kept[expert] = None
        kept.move_to_end(expert)
        if len(kept) > room:
            kept.popitem(last=False)


def slru(trace: Trace, room: int) -> float:
    """LRU in two segments: what is used again is protected, in four fifths of it."""
    trial: OrderedDict[int, None] = OrderedDict()
    safe: OrderedDict[int, None] = OrderedDict()
    marks = []
    for expert in trace.ids.ravel().tolist():
        marks.append(expert in trial or expert in safe)
        if marks[-1]:
            trial.pop(expert, None)
            safe[expert] = None
            safe.move_to_end(expert)
            if len(safe) > room * 4 // 5:
                trial[safe.popitem(last=False)[0]] = None
        else:
            trial[expert] = None
        if len(trial) + len(safe) > room:
            (trial or safe).popitem(last=False)
    return hits(marks)


def lfu(half_life: float) -> Policy:
    """Least often used first out, counts fading with a half-life in tokens."""

    def run(trace: Trace, room: int) -> float:
        ids = trace.ids
        counts = np.zeros(ids.shape[1] * trace.n_expert)
        cached = np.zeros(len(counts), np.bool_)
        marks, weight = [], 1.0
        for token in ids:
            weight *= 2.0 ** (1.0 / half_life)
            if weight > 2.0**200:
                counts, weight = counts / weight, 1.0
            for chosen in token:
                marks += cached[chosen].tolist()
                counts[chosen] += weight
                cached[chosen] = True
                while cached.sum() > room:
                    cached[np.where(cached, counts, np.inf).argmin()] = False
        return hits(marks)

    return run


def hot_and_lru(trace: Trace, room: int) -> float:
    """Keep a hot set, moved now and then, and a sixteenth for what was used last.

    As this program did before: counts with a half-life of 4,096 tokens.
    """
    aside = max(1, room // 16)
    n_layers = trace.experts.shape[1]
    use = UseCounts(n_layers, trace.n_expert, n_layers)
    sizes = _sizes(trace)
    hot: dict[ExpertId, object] = {}
    recent: OrderedDict[ExpertId, None] = OrderedDict()
    marks = []
    for number, token in enumerate(trace.experts):
        for layer, chosen in enumerate(token):
            use.add(layer, chosen[None])
            for index in chosen.tolist():
                expert = ExpertId(layer, index)
                marks.append(expert in hot or expert in recent)
                if expert in hot:
                    continue
                if len(hot) < room - aside:
                    hot[expert] = None
                    continue
                recent[expert] = None
                recent.move_to_end(expert)
                if len(recent) > aside:
                    recent.popitem(last=False)
        if number % _LOOK == _LOOK - 1:
            _apply(rebalance(use.decayed(), sizes, hot, room - aside), hot)
    return hits(marks)


def _apply(moves: Moves, hot: dict[ExpertId, object]) -> None:
    for expert in moves.evict:
        del hot[expert]
    hot.update(dict.fromkeys(moves.load))


class Product:
    """What is in the product: a `HotSet` that is told of use; with or without looks.

    With looks, what the next layer's router says a layer early is read ahead.
    """

    def __init__(self, trace: Trace, room: int, *, ahead: bool = False) -> None:
        """Run the trace."""
        n_layers = trace.experts.shape[1]
        use = UseCounts(n_layers, trace.n_expert, n_layers)
        hot = HotSet(_sizes(trace), room, lambda _: None, next_use=use.next_use)
        self.n_reads = self.n_calls = 0
        marks = []
        for number, token in enumerate(trace.experts):
            for layer, chosen in enumerate(token):
                use.add(layer, chosen[None])
                experts = [ExpertId(layer, index) for index in chosen.tolist()]
                marks += [hot.get(expert) is not None for expert in experts]
                self._read(hot, experts)
                if ahead and trace.guesses is not None and layer + 1 < n_layers:
                    guess = trace.guesses[number, layer]
                    hot.foresee(layer + 1, guess)
                    self._read(hot, [ExpertId(layer + 1, i) for i in guess.tolist()])
        self.n_calls = len(marks)
        self.hits = hits(marks)

    def _read(self, hot: HotSet, experts: Iterable[ExpertId]) -> None:
        for expert in experts:
            if hot.get(expert) is None:
                self.n_reads += 1
                hot.adopt(expert, object())


def _sizes(trace: Trace) -> dict[ExpertId, int]:
    n_layers = trace.experts.shape[1]
    return {
        ExpertId(layer, index): 1
        for layer in range(n_layers)
        for index in range(trace.n_expert)
    }


POLICIES: dict[str, Policy] = {
    "LRU": lru,
    "LRU, a room for each layer": lru_by_layer,
    "segmented LRU": slru,
    "LFU, half-life 32 tokens": lfu(32),
    "LFU, half-life 256": lfu(256),
    "LFU, half-life 4,096": lfu(4096),
    "hot set and small LRU (before)": hot_and_lru,
    "expected next use (ours)": lambda trace, room: Product(trace, room).hits,
}
