"""`p2pmoe ledger close`, `periods`: close a month for good, and see what is closed.

A period is closed once it is over, in order, and never opened again: its statements are
fixed by one hash. Works beside a running ledger.
"""

from typing import Annotated

import typer

from p2pmoe.cli.ledger_folder import AsJson, Data, open_reader
from p2pmoe.errors import ConfigurationError

__all__ = ["add_close_commands"]

_COLUMNS = ("name", "start", "end", "closed", "last_seq", "log_size", "late")
_Name = Annotated[
    str,
    typer.Argument(metavar="PERIOD", help="2026, 2026-11, 2026-11-30 or A..B, in UTC."),
]


def add_close_commands(group: typer.Typer) -> None:
    """Add the commands to the group `ledger`."""
    group.command("close")(_close)
    group.command("periods")(_periods)


def _close(
    period: _Name,
    any_days: Annotated[
        bool,
        typer.Option(
            "--any-days",
            help="Also what is no whole month or months: the months that it cuts can "
            "then never be closed as such.",
        ),
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Close a period that is over: its statements never change again."""
    from ledger.periods import format_us, parse_period
    from p2pmoe.cli.ledger_operate import operate
    from p2pmoe.cli.tables import print_json, print_values

    span = parse_period(period)
    borders = format_us(span.start_us), format_us(span.end_us)
    if not any_days and any(border[8:10] != "01" for border in borders):
        raise ConfigurationError(
            f"{period} is no whole month or months, and closing is for good",
            advice="name a month as 2026-11, or add --any-days if you mean it",
        )
    closed = operate(data, "period.close", {"name": period})
    if as_json:
        print_json(closed)
        return
    hidden = {"start_us", "end_us", "closed_us"}
    print_values({name: closed[name] for name in closed if name not in hidden})


def _periods(data: Data = None, as_json: AsJson = False) -> None:
    """List the closed periods."""
    from ledger.periods_closing import closed_periods, period_document
    from p2pmoe.cli.tables import print_json, print_rows

    with open_reader(data).session() as connection:
        rows = [period_document(row) for row in closed_periods(connection)]
    if as_json:
        print_json({"periods": rows})
    else:
        print_rows(_COLUMNS, rows, "Closed periods")
