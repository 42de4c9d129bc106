"""`p2pmoe stop`: end the worker on this machine at once.

Running work is left, which costs its pay alone; what is signed is kept, and filed at
the next start. `p2pmoe drain` ends it without loss, `p2pmoe pause` lets it rest.
"""

import typer

from p2pmoe.cli.asking_worker import Data, ask, folder_of

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("stop")(_stop)


def _stop(data: Data = None) -> None:
    """End the worker at once; `p2pmoe drain` finishes its work first."""
    import sys

    from p2pmoe.contributor.ending import wait_until_ended

    ask(data, "stop")
    wait_until_ended(folder_of(data))
    print("stopped", file=sys.stderr)
