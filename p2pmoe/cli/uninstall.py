"""`p2pmoe uninstall [--purge]`: take a worker off this machine.

Stops and removes its service. Key, receipts and shards stay, unless --purge, which says
what is lost with them and asks once. Then it names the command that removes the
program.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from p2pmoe.cli.asking_worker import Data, folder_of

__all__ = ["register"]

Purge = Annotated[
    bool, typer.Option("--purge", help="Remove key, receipts and shards as well.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("uninstall")(_uninstall)


def _uninstall(data: Data = None, purge: Purge = False, yes: Yes = False) -> None:
    """Remove the service, and with --purge everything that the worker keeps."""
    from mobile_worker.errors import IdentityInUse
    from mobile_worker.session.identity import is_in_use

    folder = folder_of(data)
    _remove_service(folder)
    if is_in_use(folder / "identity"):
        raise IdentityInUse(
            f"a worker runs on {folder}",
            advice=f"end it first: p2pmoe drain --data {folder}",
        )
    if purge:
        _purge(folder, yes=yes)
    elif folder.exists():
        print(f"key, receipts and shards stay in {folder}", file=sys.stderr)
    print(
        "the program: uv tool uninstall p2pmoe (or pip uninstall p2pmoe)",
        file=sys.stderr,
    )


def _remove_service(folder: Path) -> None:
    from p2pmoe.cli.service import service_plan
    from p2pmoe.contributor.services.carrying_out import remove
    from p2pmoe.errors import ConfigurationError

    try:
        plan = service_plan([], folder)
    except ConfigurationError:
        return  # without a service manager there is no service
    for path in remove(plan):
        print(f"removed: {path}", file=sys.stderr)


def _purge(folder: Path, *, yes: bool) -> None:
    from p2pmoe.contributor.removal import loss_of, purge
    from p2pmoe.errors import ConfigurationError

    if not folder.exists():
        print(f"there is no {folder}", file=sys.stderr)
        return
    loss = loss_of(folder)
    if loss.has_key:
        print(
            f"with {folder} goes this worker's key: what is owed to it can then be "
            "claimed with a copy alone (p2pmoe key export)",
            file=sys.stderr,
        )
    if loss.n_unfiled:
        print(
            f"{loss.n_unfiled} signed vouchers are not filed with the ledger yet: "
            "start the worker once more to be paid for them",
            file=sys.stderr,
        )
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigurationError(
                "nothing was removed: there is no terminal to ask on",
                advice="--yes removes without asking",
            )
        if not typer.confirm("Remove it?", default=False, err=True):
            raise typer.Exit(0)
    is_gone = purge(folder)
    left = "" if is_gone else "; other files in it were left"
    print(f"removed: {folder}{left}", file=sys.stderr)
