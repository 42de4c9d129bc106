"""`p2pmoe limits`, `p2pmoe limits set NAME=VALUE...`: what a worker may use, and when.

A running worker keeps to what is set within a second; without one the file in its data
folder is changed, which the next start reads.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.asking_worker import AsJson, Data, ask, folder_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["register"]

Changes = Annotated[
    list[str], typer.Argument(metavar="NAME=VALUE...", help="Limits to change.")
]
_MAX_ROWS = 100


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="What a worker may use of this machine, and when.",
        invoke_without_command=True,
        rich_markup_mode=None,
    )
    group.callback()(_show)
    group.command("set")(_set)
    app.add_typer(group, name="limits")


def _show(context: typer.Context, data: Data = None, as_json: AsJson = False) -> None:
    """Show what a worker may use of this machine, and when."""
    from mobile_worker.governor.limits_file import LIMITS_FILE, read_limits
    from p2pmoe.contributor.desk import limits_document
    from p2pmoe.contributor.errors import WorkerNotRunning

    if context.invoked_subcommand is not None:
        return
    try:
        rows = ask(data, "limits")["limits"]
    except WorkerNotRunning:
        rows = limits_document(read_limits(folder_of(data) / LIMITS_FILE))
    _print(rows, as_json=as_json)


def _set(changes: Changes, data: Data = None, as_json: AsJson = False) -> None:
    """Change limits, as `p2pmoe limits set preset=balanced hours=22:00-07:00`."""
    from p2pmoe.contributor.errors import WorkerNotRunning

    values = _values(changes)
    try:
        rows = ask(data, "set-limits", {"limits": values})["limits"]
    except WorkerNotRunning:
        rows = _write(folder_of(data), values)
    _print(rows, as_json=as_json)


def _values(changes: "Sequence[str]") -> dict[str, str]:
    from p2pmoe.errors import ConfigurationError

    values = {}
    for change in changes:
        name, separator, value = change.partition("=")
        if not separator or not name.strip():
            raise ConfigurationError(
                f"{change[:40]!r} is not NAME=VALUE",
                advice="for example p2pmoe limits set cpus=2",
            )
        values[name.strip().replace("-", "_")] = value
    return values


def _write(folder: Path, values: "Mapping[str, str]") -> "list[dict[str, str]]":
    import sys

    from mobile_worker.governor.limit_keys import changed
    from mobile_worker.governor.limits_file import (
        LIMITS_FILE,
        read_limits,
        write_limits,
    )
    from p2pmoe.contributor.desk import limits_document

    path = folder / LIMITS_FILE
    limits = changed(read_limits(path), values)
    write_limits(path, limits)
    print(f"written to {path}; no worker runs there", file=sys.stderr)
    return limits_document(limits)


def _print(rows: object, *, as_json: bool) -> None:
    from p2pmoe.cli.tables import print_json, print_rows

    found = rows if isinstance(rows, list) else []
    limits = [
        {name: str(row.get(name, "")) for name in ("limit", "value", "meaning")}
        for row in found[:_MAX_ROWS]
        if isinstance(row, dict)
    ]
    if as_json:
        print_json({"limits": limits})
    else:
        print_rows(("limit", "value", "meaning"), limits, "Limits")
