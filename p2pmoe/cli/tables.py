"""Print what a report says: a table for people, plain columns for a pipe, or JSON.

Contract: data goes to stdout only. With `as_json` it is one JSON document; on a
terminal a table; else columns separated by tabs, header first, no colour, no padding,
so that `cut` and `awk` work. Values are printed as they are: integers and strings.
"""

import json
import sys
from collections.abc import Mapping, Sequence

__all__ = ["print_json", "print_rows", "print_values"]

Row = Mapping[str, object]


def print_json(document: object) -> None:
    """Print one JSON document."""
    print(json.dumps(document, indent=2, ensure_ascii=False))


def print_rows(columns: Sequence[str], rows: Sequence[Row], title: str = "") -> None:
    """Print rows of equal columns; `title` is shown on a terminal alone."""
    if not sys.stdout.isatty():
        print("\t".join(columns))
        for row in rows:
            print("\t".join(str(row[column]) for column in columns))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left")
    for column in columns:
        is_number = any(type(row[column]) is int for row in rows)
        table.add_column(column, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(str(row[column]) for column in columns))
    Console().print(table)


def print_values(values: Row) -> None:
    """Print one name and value a line."""
    print_rows(
        ("name", "value"),
        [{"name": name, "value": str(value)} for name, value in values.items()],
    )
