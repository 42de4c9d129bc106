"""`p2pmoe ledger income|prices`: who earned what, and at which prices."""

import sys
from typing import Annotated

import typer

from p2pmoe.cli.ledger_folder import (
    READING,
    AsJson,
    Data,
    PeriodText,
    WorkerId,
    open_reader,
    shown_period,
)
from p2pmoe.errors import ConfigurationError

__all__ = ["add_income_commands"]


def add_income_commands(group: typer.Typer) -> None:
    """Add the commands to the ledger's group."""
    group.command("income")(_income)
    group.command("prices")(_prices)


def _income(
    by: Annotated[
        str,
        typer.Option(metavar="WHAT", help="worker, backbone, day, layer or expert."),
    ] = "worker",
    worker: WorkerId = None,
    period: PeriodText = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print what was earned, summed; by layer and expert of closed vouchers."""
    from ledger.amounts import format_credits
    from ledger.balances import find_owner
    from ledger.income import IncomeBy, income
    from ledger.periods import ALL_TIME, parse_period
    from ledger.statement_document import amounts
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.cli.waiting import Waiting

    if by not in set(IncomeBy):
        raise ConfigurationError(f"{by!r} is none of {', '.join(IncomeBy)}")
    span = parse_period(period) if period else ALL_TIME
    with Waiting(READING), open_reader(data).session() as connection:
        owner = find_owner(connection, worker) if worker else None
        lines = income(connection, IncomeBy(by), span, owner)
        rows = [
            {
                by: line.name,
                "servings": line.servings,
                "rows": line.rows,
                "amount_uc": line.amount_uc,
                "amount": format_credits(line.amount_uc),
                "standby_uc": line.standby_uc,
                "standby": format_credits(line.standby_uc),
            }
            for line in lines
        ]
        total = sum(line.amount_uc for line in lines)
        standby = sum(line.standby_uc for line in lines)
    if as_json:
        totals = amounts(total=total, standby_total=standby)
        print_json({"by": by, "income": rows, **totals})
        return
    columns = ("servings", "rows", "amount_uc", "amount", "standby_uc", "standby")
    print_rows((by, *columns), rows, "Income")
    told = f"total {format_credits(total)} credits"
    if standby:
        told += f", standby pay {format_credits(standby)}"
    told += f", {shown_period(span)}"
    print(told, file=sys.stderr)


def _prices(
    epoch: Annotated[
        int | None,
        typer.Option(metavar="N", help="The prices of this epoch, expert by expert."),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print the price tables that vouchers were priced by, or one of them whole."""
    from ledger.price_tables import price_rows, price_tables
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.cli.waiting import Waiting

    with Waiting(READING), open_reader(data).session() as connection:
        if epoch is None:
            rows = price_tables(connection)
        else:
            rows = price_rows(connection, epoch)
    if as_json:
        print_json({"prices": rows})
    elif rows:
        print_rows(tuple(rows[0]), rows, "Prices")
    else:
        print("no prices yet", file=sys.stderr)
