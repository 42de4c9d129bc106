"""`p2pmoe ledger verify`: re-derive everything from the files alone."""

from pathlib import Path
from typing import Annotated

import typer

from p2pmoe.cli.ledger_folder import (
    AsJson,
    Data,
    LedgerKey,
    MarketKey,
    NetworkKey,
    expected_identity,
    open_reader,
)

__all__ = ["add_verify_command"]


def add_verify_command(group: typer.Typer) -> None:
    """Add the command to the ledger's group."""
    group.command("verify")(_verify)


def _verify(
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick",
            help="Everything, or all but the leaves: what they add up to is believed.",
        ),
    ] = True,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A checkpoint kept elsewhere that the log must still contain.",
        ),
    ] = None,
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
    from p2pmoe.cli.late_bar import LateBar
    from p2pmoe.cli.tables import print_json, print_values

    reader = open_reader(data)
    expected = expected_identity(network, ledger, market, data)
    kept = [_read_note(path) for path in checkpoint or ()]
    try:
        with LateBar() as bar:
            report = verify_ledger(
                reader, expected, kept=kept, is_full=full, tell=bar.tell
            )
    except DifferenceFound as exc:
        if not as_json:
            raise
        print_json({"verified": False, "difference": str(exc)})
        raise typer.Exit(exc.exit_code) from exc
    values = {"verified": True, "full": full, **dataclasses.asdict(report)}
    if as_json:
        print_json(values)
    else:
        values["pruned_files"] = ", ".join(map(str, report.pruned_files)) or "none"
        print_values(values)


def _read_note(path: Path) -> bytes:
    from ledger.log.note import MAX_NOTE_BYTES
    from p2pmoe.cli.paper_files import read_bounded_file

    return read_bounded_file(path, MAX_NOTE_BYTES)
