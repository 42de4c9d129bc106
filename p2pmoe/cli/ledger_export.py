"""`p2pmoe ledger export`: every transfer, as CSV or as a journal for other programs."""

from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.ledger_folder import Data, PeriodText, open_reader
from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from ledger.periods import Period

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
    from ledger.periods import ALL_TIME, parse_period

    if csv == journal:
        raise ConfigurationError("choose one format: --csv or --journal")
    span = parse_period(period) if period else ALL_TIME
    with open_reader(data).session() as connection:
        for line in _lines(connection, span, as_csv=csv):
            print(line, end="")


def _lines(
    connection: "Connection", period: "Period", *, as_csv: bool
) -> "Iterator[str]":
    from ledger.export import transfers_csv
    from ledger.journal import journal_lines

    if as_csv:
        return transfers_csv(connection, period)
    return journal_lines(connection, period)
