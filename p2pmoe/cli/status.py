"""`p2pmoe status`: what the worker on this machine is doing, and why.

The five lines that `contribute` shows on a terminal: state with its reason, what ends
it and how to override it; the relay; servings; earnings; use against limits. Works
without a network. Exit code 0 if a worker runs on the folder, 1 if none does; then what
lies in the folder is told.
"""

from typing import Annotated

import typer

from p2pmoe.cli.asking_worker import AsJson, Data, ask, folder_of, print_lines

__all__ = ["register"]

Page = Annotated[
    bool,
    typer.Option("--page", help="Print the address of its local page, with its key."),
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("status")(_status)


def _status(data: Data = None, page: Page = False, as_json: AsJson = False) -> None:
    """Say what the worker on this machine is doing, and why."""
    from p2pmoe.contributor.errors import WorkerNotRunning

    if page:
        print(ask(data, "page")["url"])
        return
    try:
        document = ask(data, "status")
    except WorkerNotRunning as error:
        from p2pmoe.contributor.at_rest import report_at_rest

        report = report_at_rest(folder_of(data), str(error))
        print_lines(report.as_json(), as_json=as_json)
        raise typer.Exit(1) from error
    print_lines(document, as_json=as_json)
