"""`p2pmoe trace diff A B`: name the first place where two runs deviate.

A and B are files of `p2pmoe run --trace`. Exit code 0 if they are equal, 1 if they
differ, 2 if one cannot be read.
"""

import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from p2pmoe.trace.diff import TraceReport
    from p2pmoe.trace.format import TraceRecord

__all__ = ["register"]

TraceA = Annotated[Path, typer.Argument(metavar="A", help="A trace.")]
TraceB = Annotated[Path, typer.Argument(metavar="B", help="The trace of another run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="What two runs computed, compared row by row.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.callback()(_trace)
    group.command("diff")(_diff)
    app.add_typer(group, name="trace")


def _trace() -> None:
    """Keep a single command one of a group."""


def _diff(a: TraceA, b: TraceB, as_json: AsJson = False) -> None:
    """Name the first place where two runs deviate."""
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.trace.diff import compare_traces

    with _records(a) as left, _records(b) as right:
        report = compare_traces(left, right)
    if as_json:
        print_json(_document(report))
    elif report.is_equal:
        print(
            f"the runs are equal: {report.n_hashes} values "
            f"at {report.n_positions} positions"
        )
    else:
        print_rows(["deviates", "A", "B"], _rows(report))
    if not report.is_equal:
        raise typer.Exit(1)


@contextmanager
def _records(path: Path) -> "Iterator[Iterator[TraceRecord]]":
    """Open a trace; whatever is wrong with it names the file."""
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.trace.format import TraceUnreadable, bounded_lines, read_trace

    def named(stream: BinaryIO) -> "Iterator[TraceRecord]":
        try:
            yield from read_trace(bounded_lines(stream))
        except TraceUnreadable as error:
            raise TraceUnreadable(f"{path}: {error}", advice=error.advice) from error
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {_why(error)}") from error

    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigurationError(f"{path} is no file")
        stream = path.open("rb")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read {path}: {_why(error)}") from error
    with stream:
        yield named(stream)


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).lower()


def _rows(report: "TraceReport") -> list[dict[str, object]]:
    found = [*report.variables, *([report.place] if report.place else [])]
    rows: list[dict[str, object]] = [
        {"deviates": each.where, "A": each.left, "B": each.right} for each in found
    ]
    if report.place is None and report.n_positions:
        same = f"the same at {report.n_positions} positions"
        rows.append({"deviates": "values", "A": same, "B": same})
    return rows


def _document(report: "TraceReport") -> dict[str, object]:
    import dataclasses

    place = report.place
    return {
        "equal": report.is_equal,
        "variables": [dataclasses.asdict(each) for each in report.variables],
        "place": None if place is None else dataclasses.asdict(place),
        "n_positions": report.n_positions,
        "n_hashes": report.n_hashes,
    }
