"""Passes of lanes, arranged on a time axis that is cut into rows like lines of text.

For each lane one strip, more where passes of it overlap (chunks of a prompt), and in
each two tracks: what the lane does (computes, drafts, waits) and what is away meanwhile
(a bar for each layer's calls, from handing them over to the last answer). A bar away
under a lane that computes is latency hidden; under one that waits it is not. Pure; the
picture is drawn by timeline_svg.py. Whatever the passes say, there are at most
`MAX_ROWS` rows, and passes behind the one with bar number `MAX_BARS` are left out.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import heappop, heappush
from statistics import median
from typing import Final

from p2pmoe.passes.summary import merge_passes
from p2pmoe.passes.values import LayerTrace, PassTrace

__all__ = ["MAX_BARS", "MAX_ROWS", "Bar", "Kind", "Mark", "Timeline", "arrange"]

MAX_ROWS: Final = 40
MAX_BARS: Final = 200_000
_PASSES_A_ROW: Final = 6
_ROUND: Final = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0)
_ROUNDING_S: Final = 1e-6  # of moments that were written and read


class Kind(StrEnum):
    """What a bar stands for."""

    COMPUTES = "computes"
    DRAFTS = "drafts"
    WAITS = "waits"
    FETCHES = "fetches"  # waits for weights before a pass
    AWAY = "away"  # a layer's calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A part of a strip; seconds from the start of the timeline. `hint` says more."""

    strip: int
    kind: Kind
    start_s: float
    end_s: float
    label: str = ""
    hint: str = ""
    row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where a pass begins, what came of it, and until when its row shows it."""

    strip: int
    start_s: float
    end_s: float
    label: str
    hint: str
    failed: bool = False
    row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Rows of `row_s` seconds: `rows` has when each begins; idle ones are left out.

    `strips` has the lane of each strip; `n_left_out` counts rows beyond the last, and
    `n_passes_left_out` passes for which there are too many bars.
    """

    row_s: float
    rows: tuple[float, ...] = ()
    strips: tuple[int, ...] = ()
    bars: tuple[Bar, ...] = ()
    marks: tuple[Mark, ...] = ()
    n_left_out: int = 0
    n_passes_left_out: int = 0


def arrange(passes: Iterable[PassTrace]) -> Timeline:
    """Return the timeline of passes, which may be of several requests and lanes.

    A pass that several requests shared is drawn once.
    """
    merged = merge_passes(passes)
    merged.sort(key=lambda told: (_began(told), told.lane))
    if not merged:
        return Timeline(row_s=1.0)
    zero_s = min(_began(told) for told in merged)
    row_s = _row_seconds(merged)
    lanes, strips = _strips(merged)
    bars: list[Bar] = []
    marks: list[Mark] = []
    n_drawn = 0
    for told, strip in zip(merged, strips, strict=True):
        if len(bars) >= MAX_BARS:
            break
        n_drawn += 1
        for bar in _bars(told, told.start_s - zero_s, strip):
            bars += _cut(bar, row_s)
        marks.append(_mark(told, told.start_s - zero_s, strip, row_s))
    kept = sorted({bar.row for bar in bars} | {mark.row for mark in marks})
    places = {row: place for place, row in enumerate(kept[:MAX_ROWS])}
    return Timeline(
        row_s=row_s,
        rows=tuple(row * row_s for row in places),
        strips=lanes,
        bars=tuple(replace(b, row=places[b.row]) for b in bars if b.row in places),
        marks=tuple(replace(m, row=places[m.row]) for m in marks if m.row in places),
        n_left_out=len(kept) - len(places),
        n_passes_left_out=len(merged) - n_drawn,
    )


def _began(told: PassTrace) -> float:
    return max(0.0, told.start_s - told.draft_s)


def _ended(told: PassTrace) -> float:
    return told.start_s + told.seconds


def _row_seconds(passes: Sequence[PassTrace]) -> float:
    """Return a round time: about six passes a row, in a bounded number of rows."""
    usual = median(_ended(told) - _began(told) for told in passes)
    busy_s = until_s = 0.0  # passes may overlap, and nothing may happen between them
    for told in passes:
        busy_s += max(0.0, _ended(told) - max(until_s, _began(told)))
        until_s = max(until_s, _ended(told))
    least = max(busy_s / (MAX_ROWS - 1), min(busy_s, usual * _PASSES_A_ROW), 1e-6)
    scale = 10.0 ** math.floor(math.log10(least))
    return next(step * scale for step in _ROUND if step * scale >= least)


def _strips(passes: Sequence[PassTrace]) -> tuple[tuple[int, ...], list[int]]:
    """Return the lane of each strip, and the strip of each pass: none overlap."""
    busy: dict[int, list[tuple[float, int]]] = {}  # by lane: until when, and numbers
    free: dict[int, list[int]] = {}  # numbers that were used before
    places: list[tuple[int, int]] = []
    for told in passes:  # as they began
        own, spare = busy.setdefault(told.lane, []), free.setdefault(told.lane, [])
        while own and own[0][0] <= _began(told) + _ROUNDING_S:
            heappush(spare, heappop(own)[1])
        number = heappop(spare) if spare else len(own)
        heappush(own, (_ended(told), number))
        places.append((told.lane, number))
    ordered = sorted(set(places))
    at = {place: strip for strip, place in enumerate(ordered)}
    return tuple(lane for lane, _ in ordered), [at[place] for place in places]


def _bars(told: PassTrace, start_s: float, strip: int) -> Iterator[Bar]:
    """Yield a pass's bars, what covers others behind them; moments from the zero."""
    first_s, last_s = start_s - told.draft_s, start_s + told.seconds

    def bar(
        kind: Kind, begin: float, seconds: float, hint: str = "", label: str = ""
    ) -> Bar:
        return Bar(
            strip=strip,
            kind=kind,
            start_s=min(max(begin, first_s, 0.0), last_s),
            end_s=min(begin + seconds, last_s),
            hint=hint,
            label=label,
        )

    if told.draft_s:
        hint = f"{told.drafter} drafts {told.n_drafted} tokens"
        yield bar(Kind.DRAFTS, start_s - told.draft_s, told.draft_s, hint=hint)
    yield bar(Kind.COMPUTES, start_s, told.seconds)
    if told.prefetch_s:
        hint = f"waits for {told.n_fetched} experts, {told.fetched_bytes} bytes"
        yield bar(Kind.FETCHES, start_s, told.prefetch_s, hint=hint)
        yield bar(Kind.AWAY, start_s, told.prefetch_s, hint, "w")
    for layer in told.layers:
        if not layer.trips:
            continue
        hint, waits_s = _why(layer), start_s + layer.wait_from_s
        yield bar(Kind.WAITS, waits_s, layer.wait_s, hint=hint)
        if layer.draft_s:
            begin = waits_s - layer.draft_s
            yield bar(Kind.DRAFTS, begin, layer.draft_s, hint="drafts on")
        name = f"{layer.layer}" + ("h" if layer.n_hedged else "")
        begin = start_s + layer.start_s
        yield bar(Kind.AWAY, begin, layer.crossing_s, hint, name)


def _why(layer: LayerTrace) -> str:
    """Say in a line why a layer waited, and for how long."""
    experts = ", ".join(map(str, layer.missing[:12]))
    more = " and more" if len(layer.missing) > 12 else ""
    parts = [
        f"layer {layer.layer} needs {experts}{more} for {layer.n_rows} rows",
        f"away {_ms(layer.crossing_s)}, waited {_ms(layer.wait_s)}",
    ]
    if layer.n_hedged:
        parts.append(f"{layer.n_hedged} calls hedged")
    if layer.n_failovers:
        parts.append(f"{layer.n_failovers} calls went elsewhere")
    if layer.n_prefetched:
        parts.append(f"{layer.n_prefetched} calls had been fetched")
    return "; ".join(parts)


def _mark(told: PassTrace, start_s: float, strip: int, row_s: float) -> Mark:
    row = int(start_s // row_s)
    drafts = f" {told.drafter} {told.n_accepted}/{told.n_drafted}"
    label = f"+{told.n_committed}{drafts if told.n_drafted else ''}"
    parts = [
        f"{told.n_committed} tokens of {told.n_rows} rows in {_ms(told.seconds)}",
        f"{told.trips} waits, {_ms(told.wait_s)}",
    ]
    parts += [f"why: {told.why}"] if told.why else []
    parts += [f"failed: {told.failure}"] if told.failure else []
    return Mark(
        row=row,
        strip=strip,
        start_s=start_s,
        end_s=min(start_s + told.seconds, (row + 1) * row_s),
        label="failed" if told.failure else label,
        hint="; ".join(parts),
        failed=bool(told.failure),
    )


def _cut(bar: Bar, row_s: float) -> Iterator[Bar]:
    """Yield a bar's parts, one for each row; the label stays with the longest."""
    first, last = int(bar.start_s // row_s), int(bar.end_s // row_s)
    parts = []
    for row in range(first, last + 1):
        start_s, end_s = (
            max(bar.start_s, row * row_s),
            min(bar.end_s, (row + 1) * row_s),
        )
        if end_s > start_s:
            parts.append(replace(bar, row=row, start_s=start_s, end_s=end_s, label=""))
    if parts:
        longest = max(
            range(len(parts)), key=lambda i: parts[i].end_s - parts[i].start_s
        )
        parts[longest] = replace(parts[longest], label=bar.label)
    yield from parts


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
