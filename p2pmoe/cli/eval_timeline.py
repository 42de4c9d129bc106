"""`p2pmoe eval timeline`: all stored runs, oldest first, and what changed between them.

Files in the folder that are no runs are named on stderr and passed over.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]

Plot = Annotated[
    Path | None,
    typer.Option(metavar="FILE.svg", help="Draw the figures over the runs too."),
]
Save = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Where runs are stored.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON array.")]


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("timeline")(_timeline)


def _timeline(plot: Plot = None, save: Save = None, as_json: AsJson = False) -> None:
    """Show figures and changes of configuration over time."""
    from p2pmoe.cli.data_folders import evaluations_folder
    from p2pmoe.cli.eval_view import print_timeline
    from p2pmoe.cli.extras import check_extra
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.evaluate.store import stored_runs
    from p2pmoe.evaluate.timeline import series_of, timeline

    if plot is not None:
        check_extra("plan")
        if plot.suffix.lower() != ".svg":
            raise ConfigurationError(
                f"--plot {plot} is no .svg file", advice="name one that ends in .svg"
            )
    folder = save or evaluations_folder()

    def tell(line: str) -> None:
        print(f"passed over: {line}", file=sys.stderr)

    runs = [(path.name, run) for path, run in stored_runs(folder, tell)]
    moments = timeline(runs)
    print_timeline(moments, as_json=as_json)
    if plot is None:
        return
    if not moments:
        raise ConfigurationError(
            f"there are no runs in {folder} to draw", advice="make one: p2pmoe eval"
        )
    from p2pmoe.evaluate.timeline_picture import draw_timeline

    draw_timeline(moments, series_of(run for _, run in runs), plot)
    print(f"drawn as {plot}", file=sys.stderr)
