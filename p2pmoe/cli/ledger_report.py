"""`p2pmoe ledger audit report`: the whole ledger on one page, for an auditor.

The other commands of the group are in `ledger_audits.py`.
"""

from typing import TYPE_CHECKING

import typer

from p2pmoe.cli.ledger_audits import add_audits_commands
from p2pmoe.cli.ledger_folder import READING, AsJson, Data, open_reader

if TYPE_CHECKING:
    from ledger.database import LedgerIdentity
    from ledger.overview import Overview

__all__ = ["add_audit_group"]


def add_audit_group(group: typer.Typer) -> None:
    """Add `audit` with its command to the ledger's group."""
    audit = typer.Typer(
        help="What an auditor asks first.", no_args_is_help=True, rich_markup_mode=None
    )
    audit.command("report")(_report)
    add_audits_commands(audit)
    group.add_typer(audit, name="audit")


def _report(data: Data = None, as_json: AsJson = False) -> None:
    """Print counts and sums of everything; `ledger verify` checks them."""
    from ledger.overview import overview
    from p2pmoe.cli.tables import print_json, print_rows, print_values
    from p2pmoe.cli.waiting import Waiting

    reader = open_reader(data)
    with Waiting(READING), reader.session() as connection:
        found = overview(connection)
        rows = [
            {
                "what": line.what,
                "state": line.state,
                "count": line.count,
                "amount_uc": "" if line.amount_uc is None else line.amount_uc,
            }
            for line in found.lines
        ]
        values = _values(found, reader.identity)
    if as_json:
        print_json({**values, "lines": rows})
        return
    print_values(values)
    print_rows(("what", "state", "count", "amount_uc"), rows, "Counts")


def _values(found: "Overview", owner: "LedgerIdentity") -> dict[str, object]:
    from ledger.periods import format_us

    return {
        "network": owner.network.hex(),
        "ledger": owner.ledger.hex(),
        "market": owner.market.hex(),
        "first_transfer": format_us(found.first_us),
        "last_transfer": format_us(found.last_us),
        "debits_uc": found.debits_uc,
        "credits_uc": found.credits_uc,
        "balanced": found.debits_uc == found.credits_uc,
        **{f"{kind}_uc": sum_uc for kind, sum_uc in found.balances_uc.items()},
        "log_size": found.log_size,
        "checkpoint_size": found.checkpoint_size,
        "checkpoint_root": found.checkpoint_root.hex(),
        "witnesses": found.witnesses,
        "last_closed_period": found.last_closed_period,
    }
