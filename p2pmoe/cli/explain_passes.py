"""What each pass of an answer waited for, and which layers wait most, on stderr.

Two tables and the sums: a row for each pass (who drafted and why, what was kept, which
layers waited), then one for each layer that waited (how often, for which experts). As
in explain_table.py: for eyes on a terminal, columns of nothing left out; elsewhere
columns separated by tabs, header first, every number as it is, an empty line between.
docs/how-to/see-where-time-goes.md says what the columns mean.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Final

from p2pmoe.cli.explain_table import short_text
from p2pmoe.cli.fitted_columns import print_fitted
from p2pmoe.passes.summary import (
    LayerSummary,
    PassSummary,
    decode_passes,
    summarise,
    summarise_layers,
)
from p2pmoe.passes.values import PassTrace

__all__ = ["ExplainedPass", "print_passes"]

_MOST_EXPERTS: Final = 6
_LEFT: Final = frozenset({"text", "drafter", "waited", "why", "experts"})
_BELOW: Final = ("waited", "why")
_EXPENDABLE: Final = ("why", "text", "waited", "draft_ms", "rows", "fetch_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPass:
    """One pass, and the text that came of it."""

    text: str
    told: PassTrace


def print_passes(
    passes: Sequence[ExplainedPass],
    stream: IO[str] | None = None,
    *,
    n_prompt: int | None = None,
    n_before: int = 0,
) -> None:
    """Print both tables and the sums, on `stream` or stderr; nothing of no passes.

    The first `n_prompt` are the prompt's, None: up to the one that gave a token. The
    others are numbered on from `n_before` decode passes that are not shown.
    """
    stream = stream or sys.stderr
    if not passes:
        return
    told = [each.told for each in passes]
    if n_prompt is None:
        n_prompt = len(told) - len(decode_passes(told))
    decoding = told[n_prompt:]
    rows = [
        _pass_row(number, each, n_before=n_before, for_eyes=stream.isatty())
        for number, each in enumerate(passes, 1 - n_prompt)
    ]
    layers = [_layer_row(layer, len(decoding)) for layer in summarise_layers(decoding)]
    for table in (rows, layers):
        if table and stream.isatty():
            _print_table(table, stream)
        elif table:
            _print_columns(table, stream)
    print(file=stream)
    for name, text in _sums(summarise(decoding)):
        print(f"{name:<24}{text}", file=stream)


def _pass_row(
    number: int, each: ExplainedPass, *, n_before: int, for_eyes: bool
) -> dict[str, str]:
    told = each.told
    waited = [layer for layer in told.layers if layer.trips]
    if for_eyes:
        layers = _ranges([layer.layer for layer in waited])
    else:
        layers = ";".join(
            f"{layer.layer}:{','.join(map(str, layer.missing))}" for layer in waited
        )
    why = f"failed: {told.failure}; {told.why}" if told.failure else told.why
    return {
        "pass": "prompt" if number <= 0 else str(number + n_before),
        "text": short_text(each.text),
        "tokens": str(told.n_committed),
        "drafter": short_text(told.drafter),
        "drafts": str(told.n_drafted),
        "kept": str(told.n_accepted),
        "rows": str(told.n_rows),
        "trips": str(told.trips),
        "wait_ms": _ms(told.wait_s),
        "fetch_ms": _ms(told.prefetch_s),
        "draft_ms": _ms(told.draft_s),
        "ms": _ms(told.seconds),
        "waited": layers,
        "why": short_text(why, 200),
    }


def _layer_row(layer: LayerSummary, n_passes: int) -> dict[str, str]:
    most = layer.experts[:_MOST_EXPERTS]
    experts = " ".join(f"{expert}x{n}" for expert, n in most)
    n_waits = max(1, layer.n_passes)
    return {
        "layer": str(layer.layer),
        "waits": str(layer.n_passes),
        "of": str(n_passes),
        "rows": str(layer.n_rows),
        "wait_ms": _ms(layer.wait_s / n_waits),
        "crossing_ms": _ms(layer.crossing_s / n_waits),
        "prefetched": str(layer.n_prefetched),
        "hedged": str(layer.n_hedged),
        "failovers": str(layer.n_failovers),
        "experts": experts if most == layer.experts else f"{experts} ...",
    }


def _sums(found: PassSummary) -> list[tuple[str, str]]:
    lines = []
    if found.trips_per_token is not None:
        lines.append(("trips per token", f"{found.trips_per_token:.3f}"))
    if found.tokens_per_pass is not None:
        lines.append(("tokens per pass", f"{found.tokens_per_pass:.3f}"))
    if found.acceptance is not None:
        by = ", ".join(
            f"{short_text(name) or 'unnamed'} {kept} of {n}"
            for name, n, kept, _ in found.drafts
        )
        lines.append(("acceptance", f"{found.acceptance:.3f} ({by})"))
    if found.crossing_s is not None:
        lines.append(("ms per crossing", f"{_ms(found.crossing_s)} (median)"))
        whole = sum(found.crossings_s)
        share = found.hidden_s / whole if whole else 0.0
        lines.append(("hidden behind own work", f"{share:.3f} of the crossings"))
    return lines


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers with those that follow each other as one: 1-4 6."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in ranges)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def _print_columns(rows: Sequence[dict[str, str]], stream: IO[str]) -> None:
    print(file=stream)
    print("\t".join(rows[0]), file=stream)
    for row in rows:
        print("\t".join(row.values()), file=stream)


def _print_table(rows: Sequence[dict[str, str]], stream: IO[str]) -> None:
    """Print for eyes; what there is no room for beside a pass stands below.

    Its text does not: it is in the table of steps.
    """
    lacking = print_fitted(
        rows, stream, left=_LEFT, expendable=_EXPENDABLE, cut="experts"
    )
    gone = [name for name in lacking if name not in {*_BELOW, "text"}]
    if gone:
        print(f"\nno room here for: {', '.join(gone)}", file=stream)
    below = [name for name in _BELOW if name in lacking]
    if below:
        _print_below(rows, below, stream)


def _print_below(
    rows: Sequence[dict[str, str]], names: Sequence[str], stream: IO[str]
) -> None:
    first = {name: name for name in rows[0]}
    told = [row for row in rows if any(row[name] for name in names)]
    width = max(len(row["waited"]) for row in (first, *told))
    print(file=stream)
    for row in (first, *told):
        cells = [row[name].ljust(width if name == "waited" else 0) for name in names]
        print(f"{row['pass']:>6}  {'  '.join(cells)}".rstrip(), file=stream)
