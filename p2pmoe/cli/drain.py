"""`p2pmoe drain`: have the worker on this machine finish and end.

No new work is taken, what runs is finished, the last voucher signed and filed, leases
are given back; then its process ends. It costs nothing with the market.
"""

from typing import Annotated

import typer

from p2pmoe.cli.asking_worker import AsJson, Data, ask, folder_of, print_lines

__all__ = ["register"]

NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Do not wait until it has ended.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("drain")(_drain)


def _drain(data: Data = None, no_wait: NoWait = False, as_json: AsJson = False) -> None:
    """Finish running work, have it signed, give leases back, and end."""
    import sys

    from p2pmoe.contributor.ending import wait_until_ended

    document = ask(data, "drain")
    print_lines(document, as_json=as_json)
    if not no_wait:
        wait_until_ended(folder_of(data))
        print("drained: it has ended", file=sys.stderr)
