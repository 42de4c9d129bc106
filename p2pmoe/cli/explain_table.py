"""Where the time of each step went, as a table on stderr.

On a terminal: aligned, sizes with units, columns that are 0 throughout left out (and
those that a narrow one has no room for, which are named below it), the total last.
Elsewhere: columns separated by tabs, every number as it is, header first.
docs/how-to/see-where-time-goes.md says what the columns mean.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Final

from p2pmoe.cli.fitted_columns import print_fitted
from p2pmoe.cli.sizes import format_size
from p2pmoe.client import StepCost, total_cost

__all__ = ["ExplainedStep", "print_explained", "short_text"]

_MAX_TEXT: Final = 16
_LEFT: Final = frozenset({"text"})
_EXPENDABLE: Final = ("minor", "hits", "read", "up", "down", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedStep:
    """One step: the text that came with it, and what it cost."""

    text: str
    cost: StepCost


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: its name, its value, and how it is written for eyes and pipes."""

    name: str
    value: Callable[[StepCost], float]
    for_eyes: Callable[[float], str] = lambda value: f"{value:,.0f}"
    plain: Callable[[float], str] = lambda value: f"{value:.0f}"


def _size(value: float) -> str:
    return format_size(int(value)) if value else "0"


def _ms(value: float) -> str:
    return f"{value:,.1f}"


def _plain_ms(value: float) -> str:
    return f"{value:.1f}"


_COLUMNS: Final = (
    _Column("ram", lambda cost: cost.ram),
    _Column("disk", lambda cost: cost.disk),
    _Column("hits", lambda cost: cost.cache_hits),
    _Column("hub", lambda cost: cost.hub),
    _Column("edge", lambda cost: cost.edge),
    _Column("dropped", lambda cost: cost.dropped_calls),
    _Column("trips", lambda cost: cost.round_trips),
    _Column("wait_ms", lambda cost: cost.wait_s * 1000, _ms, _plain_ms),
    _Column("minor", lambda cost: cost.minor_faults),
    _Column("major", lambda cost: cost.major_faults),
    _Column("read", lambda cost: cost.read_bytes, _size),
    _Column("up", lambda cost: cost.bytes_up, _size),
    _Column("down", lambda cost: cost.bytes_down, _size),
    _Column("ms", lambda cost: cost.seconds * 1000, _ms, _plain_ms),
)


def print_explained(
    steps: Sequence[ExplainedStep], stream: IO[str] | None = None
) -> None:
    """Print one row a step and the total, on `stream` or stderr."""
    stream = stream or sys.stderr
    total = total_cost(step.cost for step in steps)
    rows = [
        ("prompt" if number == 1 else str(number), short_text(step.text), step.cost)
        for number, step in enumerate(steps, 1)
    ]
    rows.append(("total", "", total))
    if stream.isatty():
        _print_table(rows, stream)
        return
    print("\t".join(["step", "text", *(c.name for c in _COLUMNS)]), file=stream)
    for name, text, cost in rows:
        values = (column.plain(column.value(cost)) for column in _COLUMNS)
        print("\t".join([name, text, *values]), file=stream)


def _print_table(rows: Sequence[tuple[str, str, StepCost]], stream: IO[str]) -> None:
    texts = []
    for name, text, cost in rows:
        row = {"step": name, "text": text}
        for column in _COLUMNS:
            value = column.value(cost)
            row[column.name] = column.for_eyes(value) if value else "0"
        texts.append(row)
    lacking = print_fitted(
        texts, stream, left=_LEFT, expendable=_EXPENDABLE, total=True
    )
    if lacking:
        print(f"\nno room here for: {', '.join(lacking)}", file=stream)


def short_text(text: str, most: int = _MAX_TEXT) -> str:
    """Return text that cannot steer a terminal or break a column, cut if too long."""
    shown = repr(text)[1:-1]
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
