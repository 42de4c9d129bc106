"""`p2pmoe ledger statement`: what a worker was owed, earned, was paid, and is owed.

As text, CSV, JSON, or a journal for hledger and beancount. The states of receipts are
those of now, everything else is of the period.
"""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.ledger_folder import (
    READING,
    AsJson,
    Data,
    PeriodText,
    WorkerId,
    open_reader,
    print_lines,
    shown_period,
)
from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from ledger.statements import Statement

__all__ = ["add_statement_command"]


class _Format(StrEnum):
    TEXT = "text"
    CSV = "csv"
    JSON = "json"
    JOURNAL = "journal"


FormatName = Annotated[
    _Format, typer.Option("--format", metavar="FORMAT", help="text|csv|json|journal.")
]


def add_statement_command(group: typer.Typer) -> None:
    """Add the command to the ledger's group."""
    group.command("statement")(_statement)


def _statement(
    worker: WorkerId = None,
    period: PeriodText = None,
    form: FormatName = _Format.TEXT,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print what each worker, or one, was owed, earned and was paid, and from whom."""
    from ledger.balances import find_owner, workers
    from ledger.journal import journal_lines
    from ledger.periods import ALL_TIME, parse_period
    from ledger.statement_document import statement_csv, statement_document
    from ledger.statements import statement
    from p2pmoe.cli.tables import print_json
    from p2pmoe.cli.waiting import Waiting

    span = parse_period(period) if period else ALL_TIME
    form = _Format.JSON if as_json else form
    if form == _Format.JOURNAL and not worker:
        raise ConfigurationError(
            "a journal is of one worker: name --worker, or `ledger export --journal`"
        )
    reader = open_reader(data)
    with reader.session() as connection:
        chosen = [find_owner(connection, worker)] if worker else workers(connection)
        made = (statement(connection, owner, span) for owner in chosen)
        if form == _Format.JOURNAL:
            print_lines(journal_lines(connection, span, chosen[0]))
            return
        if form == _Format.CSV:
            print_lines(statement_csv(made))
            return
        with Waiting(READING):
            statements = list(made)
        if form == _Format.TEXT:
            _print_texts(statements)
            return
        documents = [statement_document(each) for each in statements]
        print_json(documents[0] if worker else {"statements": documents})


def _print_texts(statements: "list[Statement]") -> None:
    from p2pmoe.cli.tables import is_on_terminal

    if not statements:
        print("no worker has earned anything yet", file=sys.stderr)
    for n, each in enumerate(statements):
        if n and is_on_terminal():
            print()
        _print_text(each)


_AMOUNTS = (
    "opening",
    "earned",
    "base",
    "scarcity",
    "standby",
    "fees",
    "reversed",
    "penalties",
    "rounding",
    "paid",
    "closing",
)


_MAX_EPOCHS = 12  # of prices, shown one by one


def _print_text(statement: "Statement") -> None:
    from ledger.amounts import format_credits
    from ledger.periods import format_us
    from ledger.statement_document import amounts, statement_document
    from p2pmoe.cli.tables import print_values

    document = statement_document(statement)
    values: dict[str, object] = {
        "worker": document["worker"],
        "period": shown_period(statement.period),
    }
    for name in _AMOUNTS:
        values |= {key: document[key] for key in (f"{name}_uc", name)}
    for name in ("pending", "held", "available", "clearing"):
        values |= amounts(**{name: getattr(statement.flows.closing, f"{name}_uc")})
    values |= {name: document[name] for name in ("vouchers", "servings", "rows")}
    for line in statement.by_backbone:
        values[f"from {line.backbone.hex()[:16]}"] = (
            f"{_counted(line.servings, 'serving')}, {_counted(line.rows, 'row')}, "
            f"{format_credits(line.earned_uc)} credits"
        )
    values |= _epochs(statement) | _replicas(statement)
    for state in statement.states:
        name = f"{state.state}, {state.why}" if state.why else str(state.state)
        values[f"receipts {name}"] = (
            f"{_counted(state.receipts, 'receipt')}, "
            f"{_counted(state.servings, 'serving')}, "
            f"{format_credits(state.amount_uc)} credits"
        )
    for each in statement.payouts:
        values[f"payout {each.id.hex()[:16]}"] = (
            f"{each.state}, {format_credits(each.amount_uc)} credits"
        )
    if statement.late_receipts:
        values["issued before"] = (
            f"{_counted(statement.late_receipts, 'receipt')}, "
            f"{format_credits(statement.late_uc)} credits"
        )
    if statement.closed_period:
        values["closed"] = format_us(statement.closed_period.closed_us)
        values["statement hash"] = document["statement_hash"]
    head = statement.checkpoint
    values["proved by"] = (
        f"checkpoint {head.size} {head.root.hex()}" if head else "no checkpoint yet"
    )
    print_values(values)


def _epochs(statement: "Statement") -> dict[str, object]:
    """Return what was earned at which prices, if they are few enough to be read."""
    from ledger.amounts import format_credits

    lines = statement.by_epoch
    if len(lines) > _MAX_EPOCHS:
        told = f"{len(lines)}, {lines[0].epoch} to {lines[-1].epoch}: see --json"
        return {"price epochs": told}
    return {
        f"epoch {line.epoch}, prices {line.price_table_hash.hex()[:8]}": (
            f"{_counted(line.servings, 'serving')}, {_counted(line.rows, 'row')}, "
            f"{format_credits(line.earned_uc)} credits"
        )
        for line in lines
    }


def _replicas(statement: "Statement") -> dict[str, object]:
    """Return what the replicas that were held got, by model."""
    from ledger.amounts import format_credits

    return {
        f"standby of model {line.manifest_hash.hex()[:16]}": (
            f"{_counted(line.replicas, 'replica')} in "
            f"{_counted(line.epochs, 'epoch')}, "
            f"{format_credits(line.amount_uc)} credits"
        )
        for line in statement.standby
    }


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
