"""`p2pmoe ledger ...`: read and verify a ledger's folder.

Every command opens the folder read-only and works beside a running ledger. Amounts are
integer micro-credits (`*_uc`) and decimal strings of credits; times are UTC. Exit
codes: 0 done, 1 a check found a difference, 2 wrong input or no ledger.
"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.ledger_folder import (
    AsJson,
    Data,
    LedgerKey,
    MarketKey,
    NetworkKey,
    PeriodText,
    WorkerId,
    expected_identity,
    open_reader,
)
from p2pmoe.cli.ledger_receipt import add_receipt_group
from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from ledger.statements import Statement

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="Balances, statements, receipts: who earned what, verified.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("balance")(_balance)
    group.command("trial-balance")(_trial_balance)
    group.command("statement")(_statement)
    group.command("receipts")(_receipts)
    group.command("verify")(_verify)
    group.command("export")(_export)
    add_receipt_group(group)
    app.add_typer(group, name="ledger")


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


def _statement(
    worker: WorkerId = None,
    period: PeriodText = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print what each worker, or one, earned and from whom."""
    from ledger.periods import ALL_TIME, parse_period
    from ledger.statements import find_owner, statement, workers
    from p2pmoe.cli.tables import print_json

    span = parse_period(period) if period else ALL_TIME
    with open_reader(data).session() as connection:
        chosen = [find_owner(connection, worker)] if worker else workers(connection)
        statements = [statement(connection, owner, span) for owner in chosen]
    if as_json:
        documents = [_statement_document(each) for each in statements]
        print_json(documents[0] if worker else {"statements": documents})
        return
    if not statements:
        print("no worker has earned anything yet", file=sys.stderr)
    for n, each in enumerate(statements):
        if n and sys.stdout.isatty():
            print()
        _print_statement(each)


def _receipts(
    worker: WorkerId = None,
    period: PeriodText = None,
    status: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Only `stored` or only `rejected`."),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List the vouchers that came, and why any was refused."""
    from ledger.amounts import format_credits
    from ledger.periods import format_us, parse_period
    from ledger.statements import find_owner, receipts
    from p2pmoe.cli.tables import print_json, print_rows

    if status not in {None, "stored", "rejected"}:
        raise ConfigurationError(f"{status!r} is neither stored nor rejected")
    span = parse_period(period) if period else None
    with open_reader(data).session() as connection:
        owner = find_owner(connection, worker) if worker else None
        lines = receipts(connection, worker=owner, period=span)
    rows = [
        {
            "time": format_us(line.posted_us),
            "status": line.status,
            "reason": line.reason,
            "worker": line.worker.hex(),
            "backbone": line.backbone.hex(),
            "tab": line.tab.hex(),
            "epoch": line.price_epoch,
            "number": line.number,
            "servings": line.servings,
            "amount_uc": line.amount_uc,
            "amount": format_credits(line.amount_uc),
            "voucher": line.voucher_hash.hex(),
        }
        for line in lines
        if status is None or line.status == status
    ]
    if as_json:
        print_json({"vouchers": rows})
        return
    columns = ["time", "status", "reason", "worker", "tab", "epoch", "number"]
    if sys.stdout.isatty():  # room for what one looks for
        columns.remove("epoch")
        if all(row["status"] == "stored" for row in rows):
            columns.remove("status")
    print_rows((*columns, "servings", "amount_uc", "amount"), rows, "Vouchers")


def _verify(
    network: NetworkKey = None,
    ledger: LedgerKey = None,
    market: MarketKey = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Re-derive every balance from the signed servings."""
    import dataclasses

    from ledger.audit import verify_ledger
    from ledger.errors import DifferenceFound
    from p2pmoe.cli.tables import print_json, print_values

    reader = open_reader(data)
    try:
        report = verify_ledger(reader, expected_identity(network, ledger, market, data))
    except DifferenceFound as exc:
        if not as_json:
            raise
        print_json({"verified": False, "difference": str(exc)})
        raise typer.Exit(exc.exit_code) from exc
    values = {"verified": True, **dataclasses.asdict(report)}
    if as_json:
        print_json(values)
    else:
        print_values(values)


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


def _statement_document(statement: "Statement") -> dict[str, object]:
    from ledger.amounts import format_credits
    from ledger.periods import format_us

    lines = statement.by_backbone
    return {
        "worker": statement.worker.hex(),
        "period": {
            "start": format_us(statement.period.start_us),
            "end": format_us(statement.period.end_us),
            "start_us": statement.period.start_us,
            "end_us": statement.period.end_us,
        },
        "opening_uc": statement.opening_uc,
        "opening": format_credits(statement.opening_uc),
        "earned_uc": statement.earned_uc,
        "earned": format_credits(statement.earned_uc),
        "closing_uc": statement.closing_uc,
        "closing": format_credits(statement.closing_uc),
        "vouchers": sum(line.vouchers for line in lines),
        "servings": sum(line.servings for line in lines),
        "rows": sum(line.rows for line in lines),
        "by_backbone": [
            {
                "backbone": line.backbone.hex(),
                "vouchers": line.vouchers,
                "servings": line.servings,
                "rows": line.rows,
                "earned_uc": line.earned_uc,
                "earned": format_credits(line.earned_uc),
            }
            for line in lines
        ],
        "rejected": [
            {
                "reason": line.reason,
                "vouchers": line.vouchers,
                "claimed_uc": line.claimed_uc,
            }
            for line in statement.rejected
        ],
    }


def _print_statement(statement: "Statement") -> None:
    from ledger.periods import ALL_TIME
    from p2pmoe.cli.tables import print_values

    document = _statement_document(statement)
    values: dict[str, object] = {
        "worker": document["worker"],
        "period": "all time" if statement.period == ALL_TIME else statement.period,
    }
    names = ("opening", "earned", "closing")
    values |= {name: document[name] for pair in names for name in (f"{pair}_uc", pair)}
    values |= {name: document[name] for name in ("vouchers", "servings", "rows")}
    for line in statement.by_backbone:
        values[f"from {line.backbone.hex()[:16]}"] = (
            f"{line.servings} servings, {line.rows} rows, {line.earned_uc} uc"
        )
    for refused in statement.rejected:
        values[f"rejected: {refused.reason}"] = (
            f"{refused.vouchers} vouchers, {refused.claimed_uc} uc claimed"
        )
    print_values(values)
