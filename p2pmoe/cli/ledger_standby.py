"""`p2pmoe ledger standby report|fund`: the pot that held replicas are paid from.

The market says each epoch which replicas were held and checked; the ledger pays what
follows, out of the pot and never more than it holds. `fund` shows what would be done
and does nothing without `--commit`.
"""

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

__all__ = ["add_standby_group"]

Amount = Annotated[str, typer.Argument(metavar="CREDITS", help="Such as 12.5.")]
Source = Annotated[
    str,
    typer.Option(
        "--from", metavar="WHERE", help="fees (that the ledger earned) or outside."
    ),
]
Note = Annotated[
    str,
    typer.Option(metavar="TEXT", help="What for; one note is booked once."),
]
Commit = Annotated[
    bool, typer.Option("--commit", help="Do it; else only show what would be done.")
]


def add_standby_group(group: typer.Typer) -> None:
    """Add the commands to the ledger's group."""
    standby = typer.Typer(
        help="Pay for replicas that are held, called or not.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    standby.command("report")(_report)
    standby.command("fund")(_fund)
    group.add_typer(standby, name="standby")


def _report(
    worker: WorkerId = None,
    period: PeriodText = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print what the pot holds and each epoch gave, or what one worker got."""
    from ledger.amounts import format_credits
    from ledger.balances import find_owner
    from ledger.periods import ALL_TIME, parse_period
    from ledger.standby_report import PAPER_COLUMNS, PAY_COLUMNS, paper_rows, pay_rows
    from ledger.standby_sums import pot_uc
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.cli.waiting import Waiting

    span = parse_period(period) if period else ALL_TIME
    with Waiting(READING), open_reader(data).session() as connection:
        held_uc = pot_uc(connection)
        if worker:
            owner = find_owner(connection, worker)
            rows = pay_rows(connection, owner, span)
        else:
            rows = paper_rows(connection, span)
    pot = {"pot_uc": held_uc, "pot": format_credits(held_uc)}
    if as_json:
        print_json({**pot, "pays" if worker else "papers": rows})
        return
    print_rows(PAY_COLUMNS if worker else PAPER_COLUMNS, rows, "Standby pay")
    told = f"the pot holds {format_credits(held_uc)} credits; {shown_period(span)}"
    print(told, file=sys.stderr)


def _fund(
    amount: Amount,
    note: Note,
    source: Source = "fees",
    commit: Commit = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Fill the pot, with fees that the ledger earned or with credit from outside."""
    from ledger.amounts import parse_credits
    from p2pmoe.cli.ledger_operate import operate
    from p2pmoe.cli.tables import print_json, print_values

    answer = operate(
        data,
        "standby.fund",
        {
            "amount_uc": parse_credits(amount),
            "source": source,
            "note": note,
            "commit": commit,
        },
    )
    if as_json:
        print_json(dict(answer))
        return
    print_values(
        {name: answer[name] for name in ("amount_uc", "amount", "pot_uc", "pot")}
    )
    if not answer["committed"]:
        said = "Nothing was moved: add --commit to do it."
    elif answer["new"]:
        said = "Done."
    else:
        said = "This note was booked before; nothing was moved again."
    typer.echo(said, err=True)
