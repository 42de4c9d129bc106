"""Print what a report says: a table for people, plain columns for a pipe, or JSON.

Contract: data goes to stdout only. With `as_json` it is one JSON document; else, in a
pipe, columns separated by tabs, header first, no colour, no padding, so that `cut` and
`awk` work, every value as it is: integers and strings.

On a terminal it is a table for eyes. Of a long id the first 8 digits are shown, as in
the logs (every command takes these for the id), of a time the seconds; a column that
is empty, or that repeats its `X_uc` as `X`, is left out. What does not fit is folded,
never cut off.

Whatever a file or a peer wrote into a value, nothing printed steers a terminal or
breaks a column: JSON escapes what is not printable, elsewhere U+FFFD stands for it.
"""

import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence

__all__ = ["is_on_terminal", "print_json", "print_rows", "print_values"]

Row = Mapping[str, object]

_NUMBER = re.compile(r"-?\d{1,20}(\.\d+)?")
_ID = re.compile(r"[0-9a-f]{16}([0-9a-f]{48})?")
_LONG_ID = re.compile(r"[0-9a-f]{64}")
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
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title or None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    shown = [column for column in columns if _is_for_eyes(column, columns, rows)]
    for column in shown:
        texts = [_printable(row[column]) for row in rows]
        table.add_column(
            column.replace("_", " "),  # so that a long name breaks at a word
            justify="right" if all(map(_NUMBER.fullmatch, texts)) else "left",
            overflow="fold",
            no_wrap=all(map(_ID.fullmatch, texts)),  # to be marked and copied
        )
    for row in rows:
        # Text, not str: in a str, rich takes what stands in brackets for its own.
        table.add_row(*(Text(_for_eyes(row[column])) for column in shown))
    Console().print(table)


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
