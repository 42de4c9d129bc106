"""`p2pmoe resume`: have the worker on this machine go on.

Ends a pause of one's own, and overrides once whatever else keeps it from working now:
that holds until the cause has passed by itself.
"""

import typer

from p2pmoe.cli.asking_worker import AsJson, Data, ask, folder_of, print_lines

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("resume")(_resume)


def _resume(data: Data = None, as_json: AsJson = False) -> None:
    """End a pause, and override once what else keeps it from working."""
    import sys

    from mobile_worker.governor.remembered import RECORD_FILE, Remembered
    from p2pmoe.contributor.errors import WorkerNotRunning

    try:
        document = ask(data, "resume")
    except WorkerNotRunning:
        path = folder_of(data) / RECORD_FILE
        if not path.exists():
            raise
        record = Remembered(path)
        record.resume()
        record.save()
        print("no worker runs; the next one starts at once", file=sys.stderr)
        return
    print_lines(document, as_json=as_json)
