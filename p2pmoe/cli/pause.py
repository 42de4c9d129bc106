"""`p2pmoe pause [30m]`: let the worker on this machine rest.

Running work is finished; what it holds stays, so resuming takes seconds. The pause
outlives a restart. Without a running worker it is noted for the next one.
"""

from pathlib import Path
from typing import Annotated

import typer

from p2pmoe.cli.asking_worker import AsJson, Data, ask, folder_of, print_lines

__all__ = ["register"]

Span = Annotated[
    str | None,
    typer.Argument(metavar="TIME", help="Like 30m, 2h or 1d; else until resumed."),
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("pause")(_pause)


def _pause(span: Span = None, data: Data = None, as_json: AsJson = False) -> None:
    """Let the worker rest, for a time or until `p2pmoe resume`."""
    from p2pmoe.contributor.durations import parse_duration
    from p2pmoe.contributor.errors import WorkerNotRunning

    for_s = None if span is None else parse_duration(span)
    try:
        document = ask(data, "pause", {} if for_s is None else {"for_s": for_s})
    except WorkerNotRunning:
        _note(folder_of(data), for_s)
        return
    print_lines(document, as_json=as_json)


def _note(folder: Path, for_s: int | None) -> None:
    """Keep the pause for the next start; a folder without a worker is refused."""
    import sys

    from mobile_worker.clock import SystemClock
    from mobile_worker.governor.remembered import RECORD_FILE, Remembered
    from p2pmoe.contributor.errors import WorkerNotRunning

    if not (folder / "identity").exists():
        raise WorkerNotRunning(f"there is no worker in {folder}")
    record = Remembered(folder / RECORD_FILE)
    until_us = None if for_s is None else SystemClock().wall_us() + for_s * 1_000_000
    record.pause(until_us)
    record.save()
    print("no worker runs; the next one starts paused", file=sys.stderr)
