"""Draft-guided prefetch on the decode thread: choose, ask, wait once, check, hand over.

    fetch     what drafts foresee is weighed (choice.py); what pays is fetched at once
              from its holders, checked by hash, and put onto the step
    needed    what a layer needed teaches how far lists reach (reach.py); what was
              fetched and repeats is offered to the hot set
    behind    a small fetch that nobody waits for: it measures a link that is not known,
              or brings a remote expert that repeats, to be kept (behind.py)

A worker that sends other bytes than the shard's is never asked again; one that does not
answer costs one wait of bounded length. Memory: `buffer_bytes` for all passes under way
together (one alone may use all of it), and a few experts that come behind. Safe to use
from several decode threads.
"""

import math
import threading
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from queue import Empty
from typing import Final
from weakref import WeakSet

from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.next_use import NextUse
from p2pmoe.backbone.places import Holders
from p2pmoe.backbone.plan import Holder
from p2pmoe.backbone.prefetch.behind import Behind, BehindParts
from p2pmoe.backbone.prefetch.buffer import Ahead
from p2pmoe.backbone.prefetch.checking import ShardChecker
from p2pmoe.backbone.prefetch.choice import Choice, ChoiceQuestion, LayerWish, choose
from p2pmoe.backbone.prefetch.fetch_work import Fetching, FetchWork
from p2pmoe.backbone.prefetch.figures import PrefetchFigures
from p2pmoe.backbone.prefetch.keeping import Keeping
from p2pmoe.backbone.prefetch.link_rates import LinkRates, Source
from p2pmoe.backbone.prefetch.prefetching import Foreseen
from p2pmoe.backbone.prefetch.reach import Reach
from p2pmoe.backbone.prefetch.taking import Taking
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.backbone.use import UseCounts
from relay.keys import PeerId

__all__ = ["Prefetch", "PrefetchParts", "merge_lists"]

_LOOK_S: Final = 0.1  # a waiting thread looks so often whether the step is wanted yet
_PATIENCE: Final = 2.0  # times what a fetch is expected to take
_LEAST_PATIENCE_S: Final = 0.1
_MOST_PATIENCE_S: Final = 1.5  # beyond that
_PROBE_EVERY_S: Final = 0.25
_ROWS: Final = 2  # of a call that a fetched expert saves, about

Lists = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchParts:
    """What prefetching works with.

    `row_bytes` is what one (expert, row) pair of a dispatch adds to both directions;
    `weighs_disk`: the disk has the experts, and may be what a layer without them takes;
    `pays` says whether an expert with this decayed count of uses is worth its fetch.
    """

    hot: HotSet
    use: UseCounts
    cost: LocalCost
    fleet: Holders
    fetching: Fetching
    row_bytes: int
    buffer_bytes: int
    weighs_disk: bool = False
    pays: Callable[[float], bool]
    monotonic: Callable[[], float]


class Prefetch:
    """The prefetching of one backbone; a `Prefetching`."""

    def __init__(self, parts: PrefetchParts) -> None:
        """Begin with nothing known of links and layers."""
        self.figures = PrefetchFigures()
        self._parts = parts
        self._lock = threading.Lock()  # of all that follows
        self._rates = LinkRates()
        self._reach = Reach()
        self._live: WeakSet[Ahead] = WeakSet()  # of passes under way
        self._probe_at = -math.inf
        self._check_s = 0.0  # per byte: what a hash takes here
        self._checker = ShardChecker(parts.fetching.manifest)
        self._keeping = Keeping(parts.hot, parts.use, parts.pays)
        self._behind = Behind(
            BehindParts(
                fetching=parts.fetching,
                hot=parts.hot,
                cost=parts.cost,
                checker=self._checker,
                rates=self._rates,
                keeping=self._keeping,
                figures=self.figures,
                holders=self._holders,
            )
        )

    # Before a pass.

    def fetch(
        self, foreseen: Sequence[Foreseen], step: StepTrace, deadline: float
    ) -> None:
        """Fetch what pays, onto `step.ahead`; see `Prefetching`."""
        parts = self._parts
        lists = merge_lists(foreseen, parts.hot, parts.use.next_use)
        if not lists or step.cancelled:
            return
        now = self._parts.monotonic()
        with self._lock:
            self._behind.go_on(now)
            sources = self._sources(lists, now, deadline - now)
            room = parts.buffer_bytes - sum(ahead.max_bytes for ahead in self._live)
            choice = choose(self._question(lists, sources, room))
            if choice.wanted:
                for peer in {wanted.peer for wanted in choice.wanted}:
                    self._rates.used(peer, now)
            self._behind.probe(_by_rank(lists), now)
            n_bytes = sum(parts.hot.sizes[wanted.expert] for wanted in choice.wanted)
            step.ahead = Ahead(lists, n_bytes)
            self._live.add(step.ahead)
        if choice.wanted:
            rtts = {s.peer: s.rtt_s for own in sources.values() for s in own}
            self._wait_for(choice, rtts, step, step.ahead, deadline)

    def _question(
        self, lists: Lists, sources: Mapping[ExpertId, Sequence[Source]], room: int
    ) -> ChoiceQuestion:
        parts = self._parts
        sizes = parts.hot.sizes
        largest = max(sizes[expert] for expert in sources)
        return ChoiceQuestion(
            layers=[
                LayerWish(
                    layer=layer,
                    experts=experts,
                    chances=self._reach.within(layer, len(experts)),
                    trip_s=self._trip_s(layer, experts),
                )
                for layer, experts in lists.items()
            ],
            sources=sources,
            sizes=sizes,
            room_bytes=room,
            compute_s=parts.cost.compute_s(1) + largest * self._check_s,
        )

    def _sources(
        self, lists: Lists, now: float, within_s: float
    ) -> dict[ExpertId, tuple[Source, ...]]:
        """Return who can give what, and how much of it within a time."""
        found = {}
        for layer, experts in lists.items():
            holders = self._parts.fleet.holders(layer)
            for index in experts:
                own = (
                    self._rates.source(holder.peer, holder.cost.rtt_s, now)
                    for holder in holders.get(index, ())
                )
                kept = tuple(_in_time(s, within_s) for s in own if s is not None)
                found[ExpertId(layer, index)] = kept
        return found

    def _trip_s(self, layer: int, experts: Sequence[int]) -> float:
        """Return what a layer takes, about, that lacks some of these experts."""
        parts = self._parts
        holders, n_bytes = parts.fleet.holders(layer), _ROWS * parts.row_bytes
        times = [
            min(self._call_s(holder, n_bytes) for holder in own)
            for index in experts
            if (own := holders.get(index))
        ]
        trip_s = sum(times) / len(times) if times else 0.0
        if not parts.weighs_disk:
            return trip_s
        size = parts.hot.sizes[ExpertId(layer, experts[0])]
        return min(trip_s, parts.cost.disk_s(_ROWS, size))

    def _call_s(self, holder: Holder, n_bytes: int) -> float:
        cost = holder.cost
        rtt_s = self._rates.rtt_s(holder.peer, cost.rtt_s)
        return (cost.expected_s(_ROWS, n_bytes) - cost.rtt_s + rtt_s) * cost.risk

    def _wait_for(
        self,
        choice: Choice,
        rtts: Mapping[PeerId, float],
        step: StepTrace,
        ahead: Ahead,
        deadline: float,
    ) -> None:
        """Ask for all of it and wait once, for a bounded time."""
        parts, sizes = self._parts, self._parts.hot.sizes
        start = parts.monotonic()
        wished_s = max(_LEAST_PATIENCE_S, _PATIENCE * choice.takes_s)
        until = start + min(wished_s, choice.takes_s + _MOST_PATIENCE_S)
        until = min(until, deadline)
        work = FetchWork(wanted=choice.wanted)
        taking = Taking(choice.wanted, start, sizes, self._checker)
        n_experts, checked_s = 0, 0.0
        parts.fetching.start(work)
        while taking.n_open and not step.cancelled:
            left_s = until - parts.monotonic()
            try:  # what is here already is taken in any case
                reply = work.replies.get(timeout=max(0.0, min(left_s, _LOOK_S)))
            except Empty:
                if left_s <= 0.0:
                    break
                continue
            before = parts.monotonic()
            taken = taking.take(reply)
            checked_s += parts.monotonic() - before
            if taken is not None:
                n_experts += ahead.put(*taken, sizes[taken[0]])
        if taking.n_open:
            parts.fetching.stop(work)
        now = parts.monotonic()
        step.fetched(now - start, n_experts, taking.came_bytes)
        with self._lock:
            if not step.cancelled:
                taking.settle(self._rates, rtts, now)
            self._note(taking, n_experts, now - start, checked_s)

    def _note(
        self, taking: Taking, n_experts: int, waited_s: float, checked_s: float
    ) -> None:
        figures = self.figures
        taking.count(figures)
        figures.n_fetches += 1
        figures.n_experts += n_experts
        figures.wait_s += waited_s
        if taking.came_bytes:
            self._check_s = checked_s / taking.came_bytes

    # In a layer.

    def needed(self, step: StepTrace, layer: int, cold: Collection[int]) -> None:
        """Learn from what a layer needs; keep what repeats. See `Prefetching`."""
        ahead = step.ahead
        if ahead is None and not cold:
            return
        fetched = {} if ahead is None else ahead.layer(layer)
        hits = [index for index in cold if index in fetched]
        with self._lock:
            foreseen = () if ahead is None else ahead.foreseen.get(layer, ())
            if foreseen:
                self._reach.saw(layer, foreseen, cold)
            if ahead is not None and ahead.n_bytes and foreseen:
                self.figures.n_hits += len(hits)
                self.figures.n_misses += len(cold) - len(hits)
            missed = [index for index in cold if index not in fetched]
            self._keeping.missed(layer, missed)
            now = self._parts.monotonic()
            self._behind.go_on(now)
            if now >= self._probe_at:
                # Links are known before a round first counts on them.
                self._probe_at = now + _PROBE_EVERY_S
                self._behind.probe((ExpertId(layer, e) for e in missed), now)
        for index in hits:
            self._offer(ExpertId(layer, index), fetched[index])

    def _offer(self, expert: ExpertId, weights: ExpertWeights) -> None:
        """Offer the hot set what was fetched and is used more than most."""
        hot, use = self._parts.hot, self._parts.use
        if use.next_use.chance(expert) >= use.next_use.mean_chance(expert.layer):
            kept = hot.adopt(expert, weights)
            with self._lock:
                self.figures.n_kept += kept

    def _holders(self, expert: ExpertId) -> tuple[Holder, ...]:
        return self._parts.fleet.holders(expert.layer).get(expert.index, ())

    def samples(self) -> str:
        """Return what was fetched and what came of it, as Prometheus text."""
        with self._lock:
            return self.figures.render()


def _in_time(source: Source, within_s: float) -> Source:
    """Return a source that is asked for no more than it can send in a time."""
    if within_s == math.inf:
        return source
    n_bytes = max(0.0, within_s - source.rtt_s) / source.per_byte_s
    return replace(source, most_bytes=int(min(source.most_bytes, n_bytes)))


def merge_lists(
    foreseen: Sequence[Foreseen], hot: HotSet, next_use: NextUse
) -> dict[int, tuple[int, ...]]:
    """Return one list a layer of what several drafts foresee, by rank.

    Behind it come as many others of the layer, by use: where bytes are cheap, a layer
    whose cold experts are all fetched needs no trip for certain. What is resident, or
    no expert of the model, is left out; so are layers of which nothing is left.
    """
    lists: dict[int, tuple[int, ...]] = {}
    for layer in sorted({layer for one in foreseen for layer in one}):
        own = [one[layer] for one in foreseen if layer in one]
        longest = max(len(experts) for experts in own)
        ranked = [e[rank] for rank in range(longest) for e in own if rank < len(e)]
        likely = _cold(layer, ranked, hot)
        if likely:
            every = _cold(layer, [*likely, *next_use.ranked(layer)], hot)
            lists[layer] = every[: 2 * len(likely)]
    return lists


def _cold(layer: int, experts: Iterable[int], hot: HotSet) -> tuple[int, ...]:
    """Return the experts that the model has and memory has not, each once."""
    resident = hot.layer(layer)
    return tuple(
        index
        for index in dict.fromkeys(experts)
        if index not in resident and ExpertId(layer, index) in hot.sizes
    )


def _by_rank(lists: Lists) -> Iterator[ExpertId]:
    longest = max(len(experts) for experts in lists.values())
    for rank in range(longest):
        for layer, experts in lists.items():
            if rank < len(experts):
                yield ExpertId(layer, experts[rank])
