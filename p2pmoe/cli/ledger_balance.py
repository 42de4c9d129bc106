"""`p2pmoe ledger balance|trial-balance|register`: what accounts hold and how."""

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.ledger_folder import READING, AsJson, Data, PeriodText, open_reader
from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from ledger.account_register import RegisterLine

__all__ = ["add_balance_commands"]


def add_balance_commands(group: typer.Typer) -> None:
    """Add the commands to the ledger's group."""
    group.command("balance")(_balance)
    group.command("trial-balance")(_trial_balance)
    group.command("register")(_register)


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
    from ledger.balances import balances, find_owner
    from ledger.periods import parse_period
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.cli.waiting import Waiting

    with Waiting(READING), open_reader(data).session() as connection:
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
    from ledger.balances import balances
    from ledger.errors import DifferenceFound
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.cli.waiting import Waiting

    with Waiting(READING), open_reader(data).session() as connection:
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


def _register(
    account: Annotated[
        str,
        typer.Argument(metavar="ACCOUNT", help="A peer's id, or 8 or more digits."),
    ],
    kind: Annotated[
        str,
        typer.Option(metavar="KIND", help="Which of its accounts; see `balance`."),
    ] = "worker_pending",
    period: PeriodText = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print every transfer of an account, with the balance after it."""
    from ledger.account_register import opening_balance, register_lines
    from ledger.accounts import AccountKind
    from ledger.balances import find_owner
    from ledger.periods import ALL_TIME, parse_period
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.cli.waiting import Waiting

    if kind not in set(AccountKind):
        raise ConfigurationError(f"{kind!r} is none of {', '.join(AccountKind)}")
    span = parse_period(period) if period else ALL_TIME
    with Waiting(READING), open_reader(data).session() as connection:
        owner = find_owner(connection, account)
        of = (owner, AccountKind(kind), span)
        opening_uc = opening_balance(connection, *of)
        with closing(register_lines(connection, *of)) as lines:
            rows = [_register_row(line) for line in lines]
    if as_json:
        head = {"account": owner.hex(), "kind": kind, "opening_uc": opening_uc}
        print_json({**head, "transfers": rows})
        return
    columns = ("time", "code", "amount_uc", "amount", "balance_uc", "balance")
    title = f"{kind} of {owner.hex()[:8]}, from {opening_uc} micro-credits"
    print_rows((*columns, "with", "transfer"), rows, title, keep_title=True)


def _register_row(line: "RegisterLine") -> dict[str, object]:
    from ledger.amounts import format_credits
    from ledger.periods import format_us

    return {
        "time": format_us(line.posted_us),
        "code": line.code,
        "amount_uc": line.amount_uc,
        "amount": format_credits(line.amount_uc),
        "balance_uc": line.balance_uc,
        "balance": format_credits(line.balance_uc),
        "with": f"{line.other_kind} {line.other_owner.hex()[:8]}",
        "with_account": line.other_owner.hex(),
        "with_kind": line.other_kind,
        "reference": line.reference.hex(),
        "transfer": line.transfer_id.hex(),
    }
