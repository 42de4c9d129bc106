"""`p2pmoe ledger explain TRANSFER`: why value moved, down to the leaves."""

import dataclasses
from typing import Annotated

import typer

from p2pmoe.cli.ledger_folder import READING, AsJson, Data, open_reader

__all__ = ["add_explain_command"]


def add_explain_command(group: typer.Typer) -> None:
    """Add the command to the ledger's group."""
    group.command("explain")(_explain)


def _explain(
    transfer: Annotated[
        str,
        typer.Argument(
            metavar="TRANSFER",
            help="A transfer's id (8 or more digits) or number, or a payout's id.",
        ),
    ],
    leaves: Annotated[
        bool, typer.Option("--leaves", help="List each serving, not each expert.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Say why value moved: voucher, prices, terms, payout, and the servings."""
    from ledger.explain import explain, find_transfer
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.cli.waiting import Waiting

    reader = open_reader(data)
    with Waiting(READING), reader.session() as connection:
        moved = find_transfer(connection, transfer)
        told = explain(connection, reader.folder, moved)
    lines = told.leaves if leaves else told.experts
    servings = [dataclasses.asdict(line) for line in lines]
    name = "leaves" if leaves else "experts"
    if as_json:
        steps = [{"step": step.title, **step.facts} for step in told.steps]
        print_json({"steps": steps, name: servings})
        return
    facts = [
        {"step": step.title, "name": fact, "value": value}
        for step in told.steps
        for fact, value in step.facts.items()
    ]
    print_rows(("step", "name", "value"), facts, "Why")
    if servings:
        print_rows(tuple(servings[0]), servings, name.capitalize())
