"""A table for eyes on a terminal that may be narrow: columns of nothing are left out.

What does not fit is never cut without a word: first the space between columns is
halved, then whole columns go, the most expendable first, and who asked is told which.
"""

from collections.abc import Mapping, Sequence
from typing import IO, Literal

__all__ = ["fit_columns", "fit_words", "print_fitted"]

_EMPTY = frozenset({"", "0", "0.0"})
_MORE = " ..."


def fit_columns(
    widths: Mapping[str, int], room: int, expendable: Sequence[str]
) -> tuple[list[str], int]:
    """Return the columns that fit into `room` characters, and the gap after each.

    Those of `expendable` go one by one, the first first; the others always stay.
    """
    shown = list(widths)
    for drop in ("", *expendable):
        shown = [name for name in shown if name != drop]
        for gap in (2, 1):
            if sum(widths[name] + gap for name in shown) - 1 <= room:
                return shown, gap
    return shown, 1


def fit_words(text: str, room: int) -> str:
    """Return as many whole words as fit, with three points for the others."""
    if len(text) <= room:
        return text
    kept = text.removesuffix(_MORE).split(" ")
    while len(kept) > 1 and len(" ".join(kept) + _MORE) > room:
        kept.pop()
    return " ".join(kept) + _MORE


def print_fitted(
    rows: Sequence[Mapping[str, str]],
    stream: IO[str],
    *,
    left: frozenset[str] = frozenset(),
    expendable: Sequence[str] = (),
    cut: str = "",
    total: bool = False,
) -> list[str]:
    """Print rows of the same columns; return those left out that had something to say.

    Columns in `left` are aligned left. The words of column `cut`, the last one, are
    those that fit, one at least; with `total`, the last row is the sum of the others.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream)
    telling = [name for name in rows[0] if any(r[name] not in _EMPTY for r in rows)]
    widths = {name: max(len(name), *(len(r[name]) for r in rows)) for name in telling}
    wide = dict(widths)
    if cut in widths:
        least = (len(fit_words(row[cut], 0)) for row in rows)
        widths[cut] = max(len(cut), *least)
    shown, gap = fit_columns(widths, console.width, expendable)
    if cut in shown:
        taken = sum(widths[name] + gap for name in shown) - 1 - widths[cut]
        widths[cut] = min(wide[cut], max(widths[cut], console.width - taken))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), show_edge=False)
    for name in shown:
        justify: Literal["left", "right"] = "left" if name in left else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    for at, row in enumerate(rows, 1):
        cells = {**row, cut: fit_words(row[cut], widths[cut])} if cut in shown else row
        table.add_row(
            *(Text(cells[name]) for name in shown),
            end_section=total and at == len(rows) - 1,
            style="bold" if total and at == len(rows) else None,
        )
    console.print()
    console.print(table)
    return [name for name in telling if name not in shown]
