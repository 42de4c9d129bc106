"""`p2pmoe ledger verify`: re-derive everything from the files alone."""

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
    from p2pmoe.cli.tables import print_json, print_values

    reader = open_reader(data)
    try:
        report = verify_ledger(reader, expected_identity(network, ledger, market, data))
    except DifferenceFound as exc:
        if not as_json:
            raise
        print_json({"verified": False, "difference": str(exc)})
        raise typer.Exit(exc.exit_code) from exc
    values = {"verified": True, **dataclasses.asdict(report)}
    if as_json:
        print_json(values)
    else:
        print_values(values)
