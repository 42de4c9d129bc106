"""`p2pmoe ledger export`: every transfer, as CSV or as a journal for other programs."""

from typing import Annotated

import typer

from p2pmoe.cli.ledger_folder import Data, PeriodText, open_reader, print_lines
from p2pmoe.errors import ConfigurationError

__all__ = ["add_export_command"]


def add_export_command(group: typer.Typer) -> None:
    """Add the command to the ledger's group."""
    group.command("export")(_export)


def _export(
    csv: Annotated[bool, typer.Option("--csv", help="One line a transfer.")] = False,
    journal: Annotated[
        bool, typer.Option("--journal", help="A journal for hledger and beancount.")
    ] = False,
    period: PeriodText = None,
    data: Data = None,
) -> None:
    """Write every transfer for other programs."""
    from ledger.export import transfers_csv
    from ledger.journal import journal_lines
    from ledger.periods import ALL_TIME, parse_period

    if csv == journal:
        raise ConfigurationError("choose one format: --csv or --journal")
    span = parse_period(period) if period else ALL_TIME
    with open_reader(data).session() as connection:
        lines = transfers_csv if csv else journal_lines
        print_lines(lines(connection, span))
