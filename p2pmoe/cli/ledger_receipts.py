"""`p2pmoe ledger receipts`: every receipt of a period, each in its one state."""

from typing import Annotated

import typer

from p2pmoe.cli.ledger_folder import (
    READING,
    AsJson,
    Data,
    PeriodText,
    WorkerId,
    open_reader,
)
from p2pmoe.errors import ConfigurationError

__all__ = ["add_receipts_command"]


def add_receipts_command(group: typer.Typer) -> None:
    """Add the command to the ledger's group."""
    group.command("receipts")(_receipts)


def _receipts(
    worker: WorkerId = None,
    period: PeriodText = None,
    status: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Only paid, pending, held or rejected."),
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Say of each in a sentence why it is so.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List the vouchers that came, in which state each is, and why."""
    from ledger.balances import find_owner
    from ledger.periods import ALL_TIME, parse_period
    from ledger.receipt_document import receipt_document
    from ledger.receipt_states import ReceiptState, receipts
    from p2pmoe.cli.tables import is_on_terminal, print_json, print_rows
    from p2pmoe.cli.waiting import Waiting

    if status is not None and status not in set(ReceiptState):
        raise ConfigurationError(f"{status!r} is none of {', '.join(ReceiptState)}")
    span = parse_period(period) if period else ALL_TIME
    with Waiting(READING), open_reader(data).session() as connection:
        owner = find_owner(connection, worker) if worker else None
        lines = receipts(connection, worker=owner, period=span)
        rows = [
            receipt_document(line, explained=why)
            for line in lines
            if status is None or line.state == status
        ]
    if as_json:
        print_json({"vouchers": rows})
        return
    columns = ["time", "status", "reason", "worker", "tab", "epoch", "number"]
    if is_on_terminal():  # room for what one looks for
        columns.remove("epoch")
    columns += ["servings", "amount_uc", "amount"]
    print_rows([*columns, "why"] if why else columns, rows, "Vouchers")
