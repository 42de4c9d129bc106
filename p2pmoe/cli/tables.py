"""Print what a report says: a table for people, plain columns for a pipe, or JSON.

Contract: data goes to stdout only. With `as_json` it is one JSON document; else, in a
pipe, columns separated by tabs, header first, no colour, no padding, so that `cut` and
`awk` work, every value as it is: integers and strings.

On a terminal it is a table for eyes. Of a long id the first 8 digits are shown, as in
the logs (every command takes these for the id), of a time the seconds; a column that
is empty, or that repeats its `X_uc` as `X`, is left out. Text that does not fit is
folded, never cut off; numbers, short ids and the halves of a time stay whole. Where not
even that has room, each row is a block of lines, one for a column, with whole ids.

Whatever a file or a peer wrote into a value, nothing printed steers a terminal or
breaks a column: JSON escapes what is not printable, elsewhere U+FFFD stands for it.
"""

import json
import re
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

__all__ = ["fit", "is_on_terminal", "print_json", "print_rows", "print_values"]

Row = Mapping[str, object]

_NUMBER = re.compile(r"-?\d{1,20}(\.\d+)?")
_ID = re.compile(r"[0-9a-f]{16}([0-9a-f]{48})?")
_LONG_ID = re.compile(r"[0-9a-f]{64}")
_LONGEST_WORD = 16  # of text, until it is folded in the middle
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?Z")


def print_json(document: object) -> None:
    """Print one JSON document."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    print("\n".join(map(_escaped, text.split("\n"))))


def print_rows(
    columns: Sequence[str],
    rows: Sequence[Row],
    title: str = "",
    *,
    keep_title: bool = False,
) -> None:
    """Print rows of equal columns.

    `title` is shown on a terminal alone, unless `keep_title`: one without which the
    figures say nothing, as their unit, is told on stderr where stdout is a pipe.
    """
    if not is_on_terminal():
        if keep_title:
            print(title, file=sys.stderr)
        print("\t".join(columns))
        for row in rows:
            print("\t".join(_printable(row[column]) for column in columns))
        return
    if not rows:
        print(f"{title or 'rows'}: none")
        return
    shown = [column for column in columns if _is_for_eyes(column, columns, rows)]
    texts = [[_for_eyes(row[column]) for column in shown] for row in rows]
    names = [column.replace("_", " ") for column in shown]  # breaks at a word
    least = [_least(cells) for cells in zip(names, *texts, strict=True)]
    width = shutil.get_terminal_size().columns
    gap = 2 if sum(least) + 2 * len(least) <= width else 1
    room = width - gap * len(least)
    if sum(least) > room:
        _print_blocks(
            names, [[_printable(row[c]) for c in shown] for row in rows], title
        )
        return
    widths = [max(map(len, cells)) for cells in zip(names, *texts, strict=True)]
    _print_table(names, texts, title, fit(widths, least, room), gap)


def fit(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return widths of columns that sum to at most `room`, if their least ones do.

    The widest are cut first, so that what is short stays on one line.
    """
    fitted = list(widths)
    while sum(fitted) > room:
        cut = [i for i, width in enumerate(fitted) if width > least[i]]
        if not cut:
            break
        fitted[max(cut, key=fitted.__getitem__)] -= 1
    return fitted


def _print_table(
    names: Sequence[str],
    texts: Sequence[Sequence[str]],
    title: str,
    widths: Sequence[int],
    gap: int,
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title or None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        padding=(0, gap - 1, 0, 0),
        show_edge=False,
    )
    for name, width, *cells in zip(names, widths, *texts, strict=True):
        is_number = all(map(_NUMBER.fullmatch, cells))
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(name, justify=justify, overflow="fold", width=width)
    for row in texts:
        # Text, not str: in a str, rich takes what stands in brackets for its own.
        table.add_row(*map(Text, row))
    Console().print(table)


def _print_blocks(
    names: Sequence[str], rows: Sequence[Sequence[str]], title: str
) -> None:
    """Print each row as lines of a name and a value, with an empty line after it."""
    if title:
        print(title)
    for row in rows:
        for name, value in zip(names, row, strict=True):
            if value:
                print(f"{name:<{max(map(len, names))}}  {value}")
        print()


def _least(cells: Sequence[str]) -> int:
    """Return how narrow a column may be: its name, then its values."""
    name, *values = cells
    words = max(len(word) for cell in cells for word in cell.split() or [""])
    if all(_NUMBER.fullmatch(value) or _ID.fullmatch(value) for value in values):
        return words
    return max(min(words, _LONGEST_WORD), *map(len, name.split()))


def print_values(values: Row) -> None:
    """Print one name and value a line."""
    rows = [(name, _printable(value)) for name, value in values.items()]
    if not is_on_terminal():
        for row in [("name", "value"), *rows]:
            print("\t".join(row))
        return
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        if not _repeats(name, values):
            print(f"{name:<{width}}  {value}")


def is_on_terminal() -> bool:
    """Say whether a person looks at it; a command started without stdout has None."""
    return sys.stdout is not None and sys.stdout.isatty()


def _is_for_eyes(column: str, columns: Sequence[str], rows: Sequence[Row]) -> bool:
    if _repeats(column, columns):
        return False
    return any(str(row[column]) for row in rows)


def _repeats(name: str, names: Collection[str]) -> bool:
    """Say whether it is an amount in micro-credits that stands there in credits too."""
    return name.endswith("_uc") and name.removesuffix("_uc") in names


def _printable(value: object) -> str:
    """Return what is shown of a value, whatever was written into it."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _escaped(line: str) -> str:
    """Return a line of JSON that means the same and holds printable text only."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def _for_eyes(value: object) -> str:
    text = _printable(value)
    if _LONG_ID.fullmatch(text):
        return text[:8]
    if match := _TIME.fullmatch(text):
        return f"{match[1]} {match[2]}"
    return text
