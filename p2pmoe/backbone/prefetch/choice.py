"""Which foreseen experts to fetch from whom, if any: bytes against the trips they save.

A layer whose needs are all fetched costs no trip; a fetch costs one, and its bytes. So
for each layer as many of its list are taken, from the likeliest on, as save most:

    chance that they suffice * trip of the layer - bytes * price - computing them here

where the price of a byte is what the busiest link would take for all lists, divided by
their bytes. What that comes to is fetched if it saves more than all of it takes, the
round trip included, by a tenth at least: estimates err. Where not all of it fits into
the buffer, or is more than a link has shown to carry, the layers that gain most by the
byte go first. Pure.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.prefetch.fetch_work import Wanted
from p2pmoe.backbone.prefetch.link_rates import Source

if TYPE_CHECKING:
    from relay.keys import PeerId

__all__ = ["Choice", "ChoiceQuestion", "LayerWish", "choose"]

_MARGIN: Final = 1.1
_LEAST_PRICE_S: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWish:
    """A layer's list; `chances` has one more item: what the first n of it save.

    `trip_s` is what a trip for this layer takes.
    """

    layer: int
    experts: Sequence[int]
    chances: Sequence[float]
    trip_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceQuestion:
    """What is foreseen, and who has it.

    `sources` by expert: those that may be waited for. `sizes` are bytes of shards;
    `compute_s` is what an expert that is fetched takes to be checked and computed here.
    """

    layers: Sequence[LayerWish]
    sources: Mapping[ExpertId, Sequence[Source]]
    sizes: Mapping[ExpertId, int]
    room_bytes: int
    compute_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What to fetch, the likeliest first; what that is expected to take and to save."""

    wanted: tuple[Wanted, ...] = ()
    takes_s: float = 0.0
    saves_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A layer's list as far as it can be had, and from whom."""

    wish: LayerWish
    experts: tuple[ExpertId, ...]
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class _Best:
    """How many of a layer's list to take, and what that gains."""

    depth: int = 0
    gain_per_byte_s: float = 0.0


def choose(question: ChoiceQuestion) -> Choice:
    """Return what pays best, by the module's rules; nothing if nothing pays."""
    rows = _rows(question)
    if not rows:
        return Choice()
    price_s = _price(question, rows)
    best = [_best(question, row, price_s) for row in rows]
    order = sorted(range(len(rows)), key=lambda at: -best[at].gain_per_byte_s)
    depths = [0] * len(rows)
    loads: dict[Source, int] = {}
    for at in order:
        if best[at].depth:
            own = _loads(question, rows[at : at + 1], [best[at].depth])
            more = {s: loads.get(s, 0) + own.get(s, 0) for s in loads.keys() | own}
            if _fits(question, more):
                loads, depths[at] = more, best[at].depth
    return _weighed(question, rows, depths, loads) if loads else Choice()


def _rows(question: ChoiceQuestion) -> list[_Row]:
    """Give each expert to the source that would be done first, likeliest first.

    A list ends before an expert that nobody can give: its layer trips in any case.
    """
    loads: dict[PeerId, float] = {}
    chosen: dict[int, list[Source]] = {wish.layer: [] for wish in question.layers}
    ended: set[int] = set()
    longest = max((len(wish.experts) for wish in question.layers), default=0)
    for rank, wish in itertools.product(range(longest), question.layers):
        if rank >= len(wish.experts) or wish.layer in ended:
            continue
        expert = ExpertId(wish.layer, wish.experts[rank])
        sources = question.sources.get(expert, ())
        if not sources:
            ended.add(wish.layer)
            continue
        n_bytes = question.sizes[expert]
        done = {
            source: max(loads.get(source.peer, 0.0), source.rtt_s)
            + n_bytes * source.per_byte_s
            for source in sources
        }
        best = min(sources, key=lambda source: (done[source], source.peer))
        loads[best.peer] = done[best]
        chosen[wish.layer].append(best)
    rows = []
    for wish in question.layers:
        sources = chosen[wish.layer]
        experts = (ExpertId(wish.layer, e) for e in wish.experts[: len(sources)])
        if sources:
            rows.append(_Row(wish=wish, experts=tuple(experts), sources=tuple(sources)))
    return rows


def _price(question: ChoiceQuestion, rows: Sequence[_Row]) -> float:
    """Return the seconds that a byte takes if all lists are fetched whole."""
    loads = _loads(question, rows, [len(row.experts) for row in rows])
    total = sum(loads.values())
    slowest = max(n * source.per_byte_s for source, n in loads.items())
    return max(slowest / total, _LEAST_PRICE_S)


def _best(question: ChoiceQuestion, row: _Row, price_s: float) -> _Best:
    """Return how many of a layer's list save most."""
    best, most_s, cost_s, n_bytes = _Best(), 0.0, 0.0, 0
    for depth, expert in enumerate(row.experts, start=1):
        n_bytes += question.sizes[expert]
        cost_s += question.sizes[expert] * price_s + question.compute_s
        gain_s = row.wish.chances[depth] * row.wish.trip_s - cost_s
        if gain_s > most_s:
            best, most_s = _Best(depth, gain_s / max(1, n_bytes)), gain_s
    return best


def _loads(
    question: ChoiceQuestion, rows: Sequence[_Row], depths: Sequence[int]
) -> dict[Source, int]:
    """Return the bytes that each source would send."""
    loads: dict[Source, int] = {}
    for row, depth in zip(rows, depths, strict=True):
        for expert, source in zip(row.experts[:depth], row.sources, strict=False):
            loads[source] = loads.get(source, 0) + question.sizes[expert]
    return loads


def _fits(question: ChoiceQuestion, loads: Mapping[Source, int]) -> bool:
    return sum(loads.values()) <= question.room_bytes and all(
        n <= source.most_bytes for source, n in loads.items()
    )


def _weighed(
    question: ChoiceQuestion,
    rows: Sequence[_Row],
    depths: Sequence[int],
    loads: Mapping[Source, int],
) -> Choice:
    """Return the choice if all of it saves more than it takes."""
    n_experts = sum(depths)
    takes_s = max(source.rtt_s + n * source.per_byte_s for source, n in loads.items())
    takes_s += n_experts * question.compute_s
    saves_s = sum(
        row.wish.chances[depth] * row.wish.trip_s
        for row, depth in zip(rows, depths, strict=True)
    )
    if saves_s < _MARGIN * takes_s:
        return Choice()
    wanted = tuple(
        Wanted(expert=row.experts[rank], peer=row.sources[rank].peer)
        for rank in range(max(depths))
        for row, depth in zip(rows, depths, strict=True)
        if rank < depth
    )
    return Choice(wanted=wanted, takes_s=takes_s, saves_s=saves_s)
