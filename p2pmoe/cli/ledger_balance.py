"""`p2pmoe ledger balance|trial-balance`: what each account holds."""

from typing import Annotated

import typer

from p2pmoe.cli.ledger_folder import AsJson, Data, open_reader

__all__ = ["add_balance_commands"]


def add_balance_commands(group: typer.Typer) -> None:
    """Add the commands to the ledger's group."""
    group.command("balance")(_balance)
    group.command("trial-balance")(_trial_balance)


def _balance(
    account: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="The account of this peer: 8 or more digits of its id."
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="DATE", help="As of the beginning of 2026, 2026-11 or 2026-11-30."
        ),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print what each account holds."""
    from ledger.amounts import format_credits
    from ledger.periods import parse_period
    from ledger.statements import balances, find_owner
    from p2pmoe.cli.tables import print_json, print_rows

    with open_reader(data).session() as connection:
        owner = find_owner(connection, account) if account else None
        instant = parse_period(as_of).start_us if as_of else None
        lines = balances(connection, as_of_us=instant, owner=owner)
    rows = [
        {
            "account": line.owner.hex(),
            "kind": line.kind,
            "balance_uc": line.balance_uc,
            "balance": format_credits(line.balance_uc),
        }
        for line in lines
    ]
    if as_json:
        print_json({"accounts": rows})
    else:
        print_rows(("account", "kind", "balance_uc", "balance"), rows, "Balances")


def _trial_balance(data: Data = None, as_json: AsJson = False) -> None:
    """Print all debits and credits; their sums must be equal."""
    from ledger.errors import DifferenceFound
    from ledger.statements import balances
    from p2pmoe.cli.tables import print_json, print_rows

    with open_reader(data).session() as connection:
        lines = balances(connection)
    rows = [
        {
            "account": line.owner.hex(),
            "kind": line.kind,
            "debits_uc": line.debits_uc,
            "credits_uc": line.credits_uc,
        }
        for line in lines
    ]
    debits = sum(line.debits_uc for line in lines)
    credits_ = sum(line.credits_uc for line in lines)
    total: dict[str, object] = {
        "account": "total",
        "kind": "",
        "debits_uc": debits,
        "credits_uc": credits_,
    }
    if as_json:
        document = {"accounts": rows, "debits_uc": debits, "credits_uc": credits_}
        print_json(document | {"balanced": debits == credits_})
    else:
        columns = ("account", "kind", "debits_uc", "credits_uc")
        print_rows(columns, [*rows, total], "Trial balance")
    if debits != credits_:
        raise DifferenceFound(f"debits {debits} and credits {credits_} differ")
