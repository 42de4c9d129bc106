"""`p2pmoe ledger reconcile`: the bank's statement against the payouts.

What the bank has booked is confirmed with --commit; what does not fit is listed, and
nothing is decided about it. Exit codes: 1 if something does not fit, 3 if the bank has
booked something that is unresolved, else 0.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.ledger_folder import AsJson, Data, open_reader

if TYPE_CHECKING:
    from p2pmoe.payouts.reconciling import Reconciliation

__all__ = ["add_reconcile_command"]

_COLUMNS = (
    "id",
    "state",
    "money",
    "currency",
    "end_to_end_id",
    "booked",
    "date",
    "reason",
)


def add_reconcile_command(group: typer.Typer) -> None:
    """Add the command to the group `ledger`."""
    group.command("reconcile")(_reconcile)


def _reconcile(
    bank: Annotated[
        Path,
        typer.Option("--bank", metavar="FILE", help="Statement: camt.053, or CSV."),
    ],
    commit: Annotated[
        bool, typer.Option("--commit", help="Confirm what has arrived; else say it.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Compare a bank's statement with the payouts and confirm what has arrived."""
    from ledger.payout_list import payouts
    from p2pmoe.cli.tables import print_json
    from p2pmoe.payouts.reconciling import reconcile
    from p2pmoe.payouts.statement import read_statement

    lines = read_statement(bank)
    with open_reader(data).session() as connection:
        found = reconcile(lines, payouts(connection))
    if commit:
        _confirm(data, found)
    if as_json:
        print_json(_document(found, committed=commit))
    else:
        _print(found, committed=commit)
    if found.differences:
        raise typer.Exit(1)
    if found.unresolved:
        raise typer.Exit(3)


def _confirm(data: Path | None, found: "Reconciliation") -> None:
    """Confirm each match; one that the ledger refuses becomes a difference."""
    from ledger.errors import PayoutRefused
    from p2pmoe.cli.ledger_operate import operating
    from p2pmoe.payouts.sending import sending_right

    if not found.matches:
        return
    confirmed = []
    right = sending_right(open_reader(data).folder.path)
    with right, operating(data) as ask:
        for match in found.matches:
            params = {"id": match.id, "detail": match.detail, "commit": True}
            try:
                ask("payout.confirm", params | {"reference": match.reference})
            except PayoutRefused as exc:
                row: dict[str, object] = dict.fromkeys(_COLUMNS, "")
                found.differences.append(row | {"id": match.id, "reason": str(exc)})
            else:
                confirmed.append(match)
    found.matches = confirmed


def _document(found: "Reconciliation", *, committed: bool) -> dict[str, object]:
    matches = [
        {"id": match.id, "reference": match.reference, "detail": match.detail}
        for match in found.matches
    ]
    return {
        "committed": committed,
        "arrived": matches,
        "confirmed_before": found.n_confirmed,
        "returned_before": found.n_returned,
        "differences": found.differences,
        "unresolved": found.unresolved,
        "open": found.open,
        "other_lines": found.n_other,
    }


def _print(found: "Reconciliation", *, committed: bool) -> None:
    from p2pmoe.cli.tables import print_rows, print_values

    rows = [*found.differences, *found.unresolved, *found.open]
    if rows:
        print_rows(_COLUMNS, rows, "What does not fit, or is not there yet")
    verb = "confirmed" if committed else "arrived (confirm with --commit)"
    print_values(
        {
            verb: len(found.matches),
            "confirmed before": found.n_confirmed,
            "differences": len(found.differences),
            "unresolved": len(found.unresolved),
            "not yet on the statement": len(found.open),
            "lines of other business": found.n_other,
        }
    )
