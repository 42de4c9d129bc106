"""`p2pmoe receipts ...`: a worker's or backbone's own side of the accounts."""

import typer

from p2pmoe.cli.receipts_dispute import add_dispute_commands
from p2pmoe.cli.receipts_own import add_own_commands

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="Your own side of the accounts: what you filed and are owed, disputes.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    add_own_commands(group)
    add_dispute_commands(group)
    app.add_typer(group, name="receipts")
