"""`p2pmoe ledger doctor`: room, database, files, log, and what waits too long.

Read-only, beside a running ledger. Exit code 1 if anything is at fault; a warning is no
fault.
"""

from typing import Annotated

import typer

from p2pmoe.cli.ledger_folder import AsJson, Data, open_reader

__all__ = ["add_doctor_command"]


def add_doctor_command(group: typer.Typer) -> None:
    """Add the command to the ledger's group."""
    group.command("doctor")(_doctor)


def _doctor(
    full: Annotated[
        bool, typer.Option("--full", help="Read every row, packed leaf and tile.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Look the ledger over: disk, database, leaves, log, what waits too long."""
    from ledger.checkup import check_ledger
    from ledger.checkup_files import Severity
    from mobile_worker.clock import SystemClock
    from p2pmoe.cli.late_bar import LateBar
    from p2pmoe.cli.tables import print_json, print_rows

    reader = open_reader(data)
    with LateBar() as bar:
        bar.tell("looking the ledger over", 0.0)
        findings = check_ledger(reader, SystemClock().wall_us(), is_full=full)
    rows: list[dict[str, object]] = [
        {"check": each.check, "state": each.severity.value, "detail": each.detail}
        for each in findings
    ]
    is_sound = all(each.severity is not Severity.FAULT for each in findings)
    if as_json:
        print_json({"sound": is_sound, "checks": rows})
    else:
        print_rows(("check", "state", "detail"), rows, "Ledger")
    if not is_sound:
        raise typer.Exit(1)
