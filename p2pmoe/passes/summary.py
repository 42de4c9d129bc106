"""What the passes of one request come to: A, g, acceptance, and which layers wait.

Sums over its decode passes: those behind the one that gave the first token, because a
prompt has no choice about its waits. Trips and waits are the lane's, so that of a
request which shares its passes with others they are more than its own. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from p2pmoe.passes.values import LayerTrace, PassTrace

__all__ = [
    "LayerSummary",
    "PassSummary",
    "decode_passes",
    "merge_passes",
    "summarise",
    "summarise_layers",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSummary:
    """Sums over decode passes; ratios are None where there is nothing to divide by.

    `crossings_s` has for each wait in a layer the time from handing the calls over to
    the last answer, `hidden_s` how much of all that the lane did not wait for.
    `drafts` has for each drafter its tokens drafted and accepted, and its passes.
    """

    n_passes: int = 0
    n_tokens: int = 0
    n_trips: int = 0
    seconds: float = 0.0
    wait_s: float = 0.0
    draft_s: float = 0.0  # that nothing hid
    prefetch_s: float = 0.0
    hidden_s: float = 0.0
    crossings_s: tuple[float, ...] = ()
    drafts: tuple[tuple[str, int, int, int], ...] = ()

    @property
    def trips_per_token(self) -> float | None:
        """A: the lane's waits for each token."""
        return self.n_trips / self.n_tokens if self.n_tokens else None

    @property
    def tokens_per_pass(self) -> float | None:
        """Return g."""
        return self.n_tokens / self.n_passes if self.n_passes else None

    @property
    def acceptance(self) -> float | None:
        """The share of drafted tokens that were accepted."""
        n_drafted = sum(drafted for _, drafted, _, _ in self.drafts)
        n_accepted = sum(accepted for _, _, accepted, _ in self.drafts)
        return n_accepted / n_drafted if n_drafted else None

    @property
    def crossing_s(self) -> float | None:
        """The median time of a crossing."""
        return median(self.crossings_s) if self.crossings_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSummary:
    """One layer over some passes: how often it waited, for how long, and for what.

    `experts` are those that were asked for, the commonest first, with the number of
    passes that asked for them.
    """

    layer: int
    n_passes: int  # in which it waited
    n_rows: int
    wait_s: float
    crossing_s: float
    n_hedged: int
    n_failovers: int
    n_prefetched: int
    experts: tuple[tuple[int, int], ...]


def decode_passes(passes: Sequence[PassTrace]) -> Sequence[PassTrace]:
    """Return a request's passes without those of its prompt."""
    for at, told in enumerate(passes):
        if told.n_committed:
            return passes[at + 1 :]
    return ()


def merge_passes(passes: Iterable[PassTrace]) -> list[PassTrace]:
    """Return each pass once, of requests that shared it with the sums of their tokens.

    All are one backbone's: a lane begins one pass at a time.
    """
    found: dict[tuple[int, float, float], PassTrace] = {}
    for told in passes:
        key = (told.lane, told.start_s, told.seconds)
        other = found.get(key)
        found[key] = told if other is None else _together(told, other)
    return list(found.values())


def _together(told: PassTrace, other: PassTrace) -> PassTrace:
    return replace(
        told,
        n_drafted=told.n_drafted + other.n_drafted,
        n_accepted=told.n_accepted + other.n_accepted,
        n_committed=told.n_committed + other.n_committed,
        layers=told.layers or other.layers,
    )


def summarise(passes: Sequence[PassTrace]) -> PassSummary:
    """Return the sums over decode passes."""
    waited = [layer for told in passes for layer in told.layers if layer.trips]
    drafts: dict[str, list[int]] = {}
    for told in passes:
        if told.n_drafted:
            own = drafts.setdefault(told.drafter, [0, 0, 0])
            own[0] += told.n_drafted
            own[1] += told.n_accepted
            own[2] += 1
    return PassSummary(
        n_passes=len(passes),
        n_tokens=sum(told.n_committed for told in passes),
        n_trips=sum(told.trips for told in passes),
        seconds=sum(told.seconds for told in passes),
        wait_s=sum(told.wait_s for told in passes),
        draft_s=sum(told.draft_s for told in passes),
        prefetch_s=sum(told.prefetch_s for told in passes),
        hidden_s=sum(max(0.0, layer.crossing_s - layer.wait_s) for layer in waited),
        crossings_s=tuple(layer.crossing_s for layer in waited),
        drafts=tuple(
            (name, own[0], own[1], own[2]) for name, own in sorted(drafts.items())
        ),
    )


def summarise_layers(passes: Sequence[PassTrace]) -> list[LayerSummary]:
    """Return the layers that waited or were prefetched in some passes, ascending."""
    by_layer: dict[int, list[LayerTrace]] = {}
    for told in passes:
        for layer in told.layers:
            if layer.trips or layer.n_prefetched:
                by_layer.setdefault(layer.layer, []).append(layer)
    return [_layer(number, by_layer[number]) for number in sorted(by_layer)]


def _layer(number: int, found: Sequence[LayerTrace]) -> LayerSummary:
    waited = [layer for layer in found if layer.trips]
    experts = Counter(expert for layer in waited for expert in layer.missing)
    ordered = sorted(experts.items(), key=lambda item: (-item[1], item[0]))
    return LayerSummary(
        layer=number,
        n_passes=len(waited),
        n_rows=sum(layer.n_rows for layer in waited),
        wait_s=sum(layer.wait_s for layer in waited),
        crossing_s=sum(layer.crossing_s for layer in waited),
        n_hedged=sum(layer.n_hedged for layer in found),
        n_failovers=sum(layer.n_failovers for layer in found),
        n_prefetched=sum(layer.n_prefetched for layer in found),
        experts=tuple(ordered),
    )
