"""`p2pmoe ledger payout ...`: prepare, send and settle what workers are paid.

Where money moves a command says what it would do, and does it with --commit. Exit codes
as everywhere; 3 where it is not known whether something was paid.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p2pmoe.cli.ledger_folder import AsJson, Data, PeriodText, open_reader
from p2pmoe.cli.ledger_payout_send import Commit, PayeesFile, send
from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["add_payout_group"]

PayoutId = Annotated[
    str, typer.Argument(metavar="ID", help="A payout's id, or 8 or more of its digits.")
]
Reason = Annotated[
    str, typer.Option(metavar="TEXT", help="Why, for the payout's list of steps.")
]
_SHOWN = ("id", "worker", "destination", "parts", "amount_uc", "amount", "money")


def add_payout_group(group: typer.Typer) -> None:
    """Add the group `payout` to the group `ledger`."""
    payout = typer.Typer(
        help="Pay workers: prepare, send, confirm; every step is kept.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    payout.command("prepare")(_prepare)
    payout.command("list")(_list)
    payout.command("show")(_show)
    payout.command("send")(send)
    payout.command("confirm")(_confirm)
    payout.command("void")(_void)
    payout.command("resolve")(_resolve)
    group.add_typer(payout, name="payout")


def _prepare(
    period: Annotated[
        str, typer.Option(metavar="PERIOD", help="A closed period, as 2026-11.")
    ],
    payees: PayeesFile,
    rate: Annotated[
        str, typer.Option(metavar="TEXT", help="As '1 credit = 0.01 EUR'.")
    ],
    adapter: Annotated[
        str, typer.Option(metavar="NAME", help="How they are paid: bank or http.")
    ] = "bank",
    commit: Commit = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Set apart what was released by the end of a closed period, worker by worker."""
    from p2pmoe.cli.ledger_operate import operate
    from p2pmoe.cli.tables import print_json
    from p2pmoe.payouts.payees import read_payees

    known = read_payees(payees)
    needed = "id" if adapter == "http" else "iban"
    rows = []
    reasons = dict(known.bad)
    for worker, payee in known.good.items():
        if getattr(payee, needed):
            rows.append({"worker": worker.hex(), "destination": payee.name})
        else:
            reasons[worker] = f"payee {payee.name!r} has no {needed}"
    params = {"period": period, "adapter": adapter, "rate": rate, "payees": rows}
    plan = dict(operate(data, "payout.prepare", params | {"commit": commit}))
    for one in plan["skipped"]:
        worker = bytes.fromhex(one["worker"])
        if one["reason"] == "no payee":
            one["reason"] = reasons.get(worker, "no payee")
    if as_json:
        print_json(plan)
    else:
        _print_plan(plan)


def _print_plan(plan: "Mapping[str, Any]") -> None:
    from ledger.amounts import format_credits
    from p2pmoe.cli.tables import print_rows

    done = "prepared" if plan["committed"] else "would be prepared, with --commit"
    print_rows((*_SHOWN, "currency"), plan["payouts"], f"Payouts of {plan['period']}")
    if plan["skipped"]:
        print_rows(
            ("worker", "amount_uc", "amount", "reason"), plan["skipped"], "Left out"
        )
    if not plan["payouts"]:
        text = "nothing to pay; what is released after a period is paid with the next"
        typer.echo(text, err=True)
        return
    rest = format_credits(plan["rounding_uc"])
    typer.echo(
        f"{len(plan['payouts'])} payouts, {plan['total_money']} {plan['currency']}, "
        f"{done}; {rest} credits of rounding stay available",
        err=True,
    )


def _list(
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only those in this state.")
    ] = None,
    period: PeriodText = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List payouts and where they stand; exit code 3 if one is unresolved."""
    from ledger.payout_list import PAYOUT_COLUMNS, payouts
    from ledger.payouts import PayoutState
    from ledger.periods_closing import closed_period
    from p2pmoe.cli.tables import print_json, print_rows

    if state is not None and state not in set(PayoutState):
        names = ", ".join(PayoutState)
        raise ConfigurationError(f"state {state!r} is none of {names}")
    with open_reader(data).session() as connection:
        period_id = closed_period(connection, period).id if period else None
        rows = payouts(connection, state=state, period_id=period_id)
    if as_json:
        print_json({"payouts": rows})
    else:
        print_rows(PAYOUT_COLUMNS, rows, "Payouts")
    if any(row["state"] == PayoutState.UNRESOLVED for row in rows):
        raise typer.Exit(3)


def _show(payout: PayoutId, data: Data = None, as_json: AsJson = False) -> None:
    """Show one payout and its steps."""
    from ledger.payout_list import (
        find_payout,
        payout_document,
        payout_events,
        payout_rows,
    )
    from p2pmoe.cli.tables import print_json, print_rows, print_values

    with open_reader(data).session() as connection:
        payout_id = find_payout(connection, payout)
        document = payout_document(payout_rows(connection, [payout_id])[payout_id])
        steps = payout_events(connection, payout_id)
    if as_json:
        print_json(document | {"steps": steps})
        return
    print_values(document)
    print_rows(("time", "state", "detail"), steps, "Steps")


def _confirm(
    payout: PayoutId,
    reference: Annotated[
        str, typer.Option(metavar="TEXT", help="What the bank calls the payment.")
    ] = "",
    commit: Commit = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Say that a sent payout has arrived."""
    params = {"reference": reference, "detail": "confirmed by the operator"}
    _decide(data, payout, ("payout.confirm", params), commit=commit, as_json=as_json)


def _void(
    payout: PayoutId,
    reason: Reason = "",
    commit: Commit = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Give up a payout that was not sent; its credits are available again."""
    params = {"reason": reason}
    _decide(data, payout, ("payout.void", params), commit=commit, as_json=as_json)


def _resolve(
    payout: PayoutId,
    paid: Annotated[
        bool | None,
        typer.Option("--paid/--not-paid", help="What the bank says about it."),
    ] = None,
    reason: Reason = "",
    commit: Commit = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Say whether an unresolved payout was paid; if not, it is available again."""
    if paid is None:
        raise ConfigurationError("say --paid or --not-paid")
    params = {"paid": paid, "reason": reason}
    _decide(data, payout, ("payout.resolve", params), commit=commit, as_json=as_json)


def _decide(
    data: Path | None,
    payout: str,
    asked: "tuple[str, Mapping[str, object]]",
    *,
    commit: bool,
    as_json: bool,
) -> None:
    """Run an operation that ends a payout, while nobody sends."""
    from ledger.payout_list import find_payout
    from p2pmoe.cli.ledger_operate import operate
    from p2pmoe.cli.tables import print_json, print_values
    from p2pmoe.payouts.sending import sending_right

    reader = open_reader(data)
    with reader.session() as connection:
        payout_id = find_payout(connection, payout)
    name, params = asked
    params = {**params, "id": payout_id.hex(), "commit": commit}
    with sending_right(reader.folder.path):
        answer = operate(data, name, params)
    if as_json:
        print_json(answer)
        return
    before: Any = answer["payout"]
    names = ("id", "worker", "destination", "amount", "money", "currency")
    values = {name: before[name] for name in names}
    print_values(values | {"from": before["state"], "to": answer["state"]})
    if not answer["is_new"]:
        typer.echo("it was so before", err=True)
    elif not commit:
        typer.echo("nothing was done: add --commit", err=True)
