"""`p2pmoe ledger ...`: read, verify and operate a ledger; one file a group of commands.

Every command that reads opens the folder read-only and works beside a running ledger.
Amounts are integer micro-credits (`*_uc`) and decimal strings of credits; times are
UTC. Exit codes: 0 done, 1 a check found a difference, 2 wrong input or no ledger, 3 the
outcome is not known and must be resolved.
"""

import typer

from p2pmoe.cli.ledger_balance import add_balance_commands
from p2pmoe.cli.ledger_close import add_close_commands
from p2pmoe.cli.ledger_dispute import add_dispute_group
from p2pmoe.cli.ledger_doctor import add_doctor_command
from p2pmoe.cli.ledger_equivocation import add_equivocation_group
from p2pmoe.cli.ledger_explain import add_explain_command
from p2pmoe.cli.ledger_export import add_export_command
from p2pmoe.cli.ledger_income import add_income_commands
from p2pmoe.cli.ledger_log import add_log_group
from p2pmoe.cli.ledger_payout import add_payout_group
from p2pmoe.cli.ledger_policy import add_policy_group
from p2pmoe.cli.ledger_receipt import add_receipt_group
from p2pmoe.cli.ledger_receipts import add_receipts_command
from p2pmoe.cli.ledger_reconcile import add_reconcile_command
from p2pmoe.cli.ledger_report import add_audit_group
from p2pmoe.cli.ledger_standby import add_standby_group
from p2pmoe.cli.ledger_statement import add_statement_command
from p2pmoe.cli.ledger_store import add_store_commands
from p2pmoe.cli.ledger_verify import add_verify_command
from p2pmoe.cli.ledger_witness import add_witness_commands

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="Balances, statements, receipts: who earned what, verified.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    add_balance_commands(group)
    add_statement_command(group)
    add_receipts_command(group)
    add_income_commands(group)
    add_explain_command(group)
    add_verify_command(group)
    add_export_command(group)
    add_audit_group(group)
    add_receipt_group(group)
    add_dispute_group(group)
    add_equivocation_group(group)
    add_policy_group(group)
    add_standby_group(group)
    add_store_commands(group)
    add_doctor_command(group)
    add_close_commands(group)
    add_payout_group(group)
    add_reconcile_command(group)
    add_log_group(group)
    add_witness_commands(group)
    app.add_typer(group, name="ledger")
