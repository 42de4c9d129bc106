"""`p2pmoe ledger receipts`: every voucher that came, in its one state."""

import sys
from typing import Annotated

import typer

from p2pmoe.cli.ledger_folder import AsJson, Data, PeriodText, WorkerId, open_reader
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
