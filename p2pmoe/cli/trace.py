"""`p2pmoe trace`: what runs computed, and where their time went.

Files are those of `p2pmoe run --trace`. `trace diff A B` names the first place where
two runs deviate: exit code 0 if they are equal, 1 if they differ, 2 if one cannot be
read.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli import trace_plot, trace_show

if TYPE_CHECKING:
    from p2pmoe.trace.diff import TraceReport

__all__ = ["register"]

TraceA = Annotated[Path, typer.Argument(metavar="A", help="A trace.")]
TraceB = Annotated[Path, typer.Argument(metavar="B", help="The trace of another run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="What runs computed, compared row by row; and where their time went.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("diff")(_diff)
    trace_plot.register(group)
    trace_show.register(group)
    app.add_typer(group, name="trace")


def _diff(a: TraceA, b: TraceB, as_json: AsJson = False) -> None:
    """Name the first place where two runs deviate."""
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.cli.trace_input import open_trace
    from p2pmoe.trace.diff import compare_traces

    with open_trace(a) as left, open_trace(b) as right:
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
