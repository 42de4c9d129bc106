"""`p2pmoe ledger statement`: what a worker earned, from whom, and what became of it."""

import sys
from typing import TYPE_CHECKING

import typer

from p2pmoe.cli.ledger_folder import AsJson, Data, PeriodText, WorkerId, open_reader

if TYPE_CHECKING:
    from ledger.statements import Statement

__all__ = ["add_statement_command"]


def add_statement_command(group: typer.Typer) -> None:
    """Add the command to the ledger's group."""
    group.command("statement")(_statement)


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
