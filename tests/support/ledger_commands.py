"""Run `p2pmoe ledger ...` in this process, on a small ledger."""

import json
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner, Result

from p2pmoe.cli.ledger import register
from tests.support.ledger_world import World

__all__ = ["document_of", "run", "world_with_vouchers"]


def world_with_vouchers(path: Path) -> World:
    """Two vouchers of one tab, four servings, and a forged one that was refused."""
    world = World()
    with world.open(path) as store:
        tab = world.tab(store.grant(world.order(ceiling_uc=5000)).result(60))
        tab.file(store, 0, 1, 2)
        tab.file(store, 3)
        forged = tab.forged()
        store.file(forged, b"", tab.worker.id).result(60)  # its own, so it counts
        world.earned_uc = tab.previous.amount_uc
    return world


def run(path: Path, *words: str) -> Result:
    """Run a command on the ledger in a folder."""
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, ["ledger", *words, "--data", str(path)])


def document_of(path: Path, *words: str) -> Any:
    """Run a command and return the JSON that it prints."""
    result = run(path, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
