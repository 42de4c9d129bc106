"""`p2pmoe ledger export`: every transfer, for other programs."""

from typing import Annotated

import typer

from p2pmoe.cli.ledger_folder import Data, PeriodText, open_reader
from p2pmoe.errors import ConfigurationError

__all__ = ["add_export_command"]


def add_export_command(group: typer.Typer) -> None:
    """Add the command to the ledger's group."""
    group.command("export")(_export)


def _export(
    csv: Annotated[bool, typer.Option("--csv", help="One line a transfer.")] = False,
    period: PeriodText = None,
    data: Data = None,
) -> None:
    """Write every transfer for other programs."""
    from ledger.export import transfers_csv
    from ledger.periods import parse_period

    if not csv:
        raise ConfigurationError("choose a format: --csv")
    span = parse_period(period) if period else None
    with open_reader(data).session() as connection:
        for line in transfers_csv(connection, span):
            print(line, end="")
