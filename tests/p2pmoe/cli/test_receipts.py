"""The group `receipts` is there, with the commands of a dispute."""

import typer
from typer.testing import CliRunner

from p2pmoe.cli.receipts import register


def test_its_commands():
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    shown = CliRunner().invoke(app, ["receipts", "--help"])
    assert shown.exit_code == 0
    for command in ("dispute", "answer"):
        assert command in shown.stdout
