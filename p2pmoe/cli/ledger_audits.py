"""`p2pmoe ledger audit list|records|rows`: what the beacon chose, and what came of it.

`rows` writes what a conviction rests on: with it and the serving's leaf anybody who has
the expert can compute the results again. Read-only; exit codes as for the others.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.ledger_folder import AsJson, Data, WorkerId, open_reader

if TYPE_CHECKING:
    from ledger.beacon_rows import Audited
    from ledger.beacon_words import AuditState

__all__ = ["add_audits_commands"]

_LISTED = ("id", "state", "worker", "backbone", "tab", "serving", "drawn", "detail")
_RECORD = ("passed", "failed", "unopened", "unjudged", "unasked", "open")

StateName = Annotated[
    str | None,
    typer.Option(
        "--state", metavar="STATE", help=f"Only those that are {', '.join(_RECORD)}."
    ),
]
By = Annotated[str, typer.Option("--by", metavar="WHOM", help="worker or backbone.")]
Limit = Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")]


def add_audits_commands(audit: typer.Typer) -> None:
    """Add the commands to the group `audit`."""
    audit.command("list")(_list)
    audit.command("records")(_records)
    audit.command("rows")(_rows)


def _list(
    worker: WorkerId = None,
    state: StateName = None,
    limit: Limit = 100,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List audited servings, the newest first."""
    from ledger.balances import find_owner
    from ledger.beacon_rows import audits_where
    from p2pmoe.cli.tables import print_json, print_rows

    wanted = _state(state)
    with open_reader(data).session() as connection:
        owner = find_owner(connection, worker) if worker else None
        found = audits_where(connection, worker=owner, state=wanted, limit=limit)
    rows = [_row(each) for each in found]
    if as_json:
        print_json({"audits": rows})
    else:
        print_rows(_LISTED, rows, "Audits")


def _records(by: By = "backbone", data: Data = None, as_json: AsJson = False) -> None:
    """Add up what audits came to, by backbone or by worker."""
    from ledger.beacon_report import audit_records
    from ledger.beacon_words import AuditState
    from ledger.errors import OperationRefused
    from p2pmoe.cli.tables import print_json, print_rows

    if by not in {"worker", "backbone"}:
        raise OperationRefused(f"--by is {by[:20]!r}: give worker or backbone")
    with open_reader(data).session() as connection:
        found = audit_records(connection, by_backbone=by == "backbone")
    rows = [
        {by: each.peer.hex(), "audits": each.n_all}
        | {name: each.of(AuditState(name)) for name in _RECORD}
        for each in found
    ]
    if as_json:
        print_json({"records": rows})
    else:
        print_rows((by, "audits", *_RECORD), rows, "Records")


def _rows(
    audit: Annotated[int, typer.Argument(metavar="AUDIT", help="A failed one's id.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="A new file.")
    ],
    data: Data = None,
) -> None:
    """Write the rows of a failed audit to a file, as they were hashed."""
    from ledger.beacon_rows import opened_rows_of
    from p2pmoe.cli.paper_files import write_new_file

    with open_reader(data).session() as connection:
        rows = opened_rows_of(connection, audit)
    write_new_file(output, rows)
    print(f"rows written to {output}", file=sys.stderr)


def _state(name: str | None) -> "AuditState | None":
    from ledger.beacon_words import AuditState
    from ledger.errors import OperationRefused

    if name is None:
        return None
    try:
        return AuditState(name)
    except ValueError as exc:
        raise OperationRefused(
            f"--state is {name[:20]!r}: give one of {', '.join(_RECORD)}"
        ) from exc


def _row(each: "Audited") -> dict[str, object]:
    from ledger.periods import format_us

    return {
        "id": each.id,
        "state": each.state.value,
        "worker": each.worker.hex(),
        "backbone": each.backbone.hex(),
        "voucher": each.voucher_hash.hex(),
        "tab": each.leaf.tab.hex(),
        "serving": each.leaf.serving,
        "layer": each.leaf.layer,
        "expert": each.leaf.expert,
        "rows": each.leaf.rows,
        "drawn": format_us(each.posted_us),
        "drawn_us": each.posted_us,
        "decided_us": each.decided_us,
        "referees": [word.referee.hex() for word in each.words],
        "reversed": each.is_reversed,
        "detail": each.detail,
    }
