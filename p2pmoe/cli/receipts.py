"""`p2pmoe receipts ...`: a worker's or backbone's own side of the accounts."""

import typer

from p2pmoe.cli.receipts_dispute import add_dispute_commands

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="Your own side of the accounts: dispute a serving, answer a dispute.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    add_dispute_commands(group)
    app.add_typer(group, name="receipts")
