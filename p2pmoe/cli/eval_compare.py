"""`p2pmoe eval compare A B`: which variable changed, and what that did to each figure.

Runs are named by file, by (the beginning of) their configuration's digest, or `last`.
What was measured on different texts or sets is left out, and said; runs that have
nothing in common are refused with exit code 2.
"""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]

Before = Annotated[str, typer.Argument(metavar="A", help="The run before.")]
After = Annotated[str, typer.Argument(metavar="B", help="The run after.")]
Save = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Where runs are stored.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("compare")(_compare)


def _compare(
    before: Before, after: After, save: Save = None, as_json: AsJson = False
) -> None:
    """Show two stored runs side by side, and which variables changed."""
    from p2pmoe.cli.data_folders import evaluations_folder
    from p2pmoe.cli.eval_view import print_comparison
    from p2pmoe.evaluate.comparison import compare
    from p2pmoe.evaluate.store import find_run, load_run

    folder = save or evaluations_folder()
    runs = [load_run(find_run(name, folder)) for name in (before, after)]
    print_comparison(compare(*runs), as_json=as_json)
