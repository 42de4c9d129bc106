"""`p2pmoe ledger explain TRANSFER`: why value moved, down to the leaves."""

from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.ledger_folder import READING, AsJson, Data, open_reader

if TYPE_CHECKING:
    from ledger.explain import Explanation, LeafLine

__all__ = ["add_explain_command"]

_LEAF_COLUMNS = (
    "serving",
    "request",
    "layer",
    "expert",
    "rows",
    "unit_price_uc",
    "amount_uc",
)


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
    servings = _leaf_rows(told) if leaves else _expert_rows(told)
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


def _leaf_rows(told: "Explanation") -> list[dict[str, object]]:
    return [
        {name: getattr(line, name) for name in _LEAF_COLUMNS} for line in told.leaves
    ]


def _expert_rows(told: "Explanation") -> list[dict[str, object]]:
    by_expert: dict[tuple[int, int], list[LeafLine]] = {}
    for line in told.leaves:
        by_expert.setdefault((line.layer, line.expert), []).append(line)
    return [
        {
            "layer": layer,
            "expert": expert,
            "servings": len(lines),
            "rows": sum(line.rows for line in lines),
            "unit_price_uc": lines[0].unit_price_uc,
            "amount_uc": sum(line.amount_uc for line in lines),
        }
        for (layer, expert), lines in sorted(by_expert.items())
    ]
