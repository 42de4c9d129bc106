"""`p2pmoe models` is a group of commands, each in a file of its own."""

import typer
from typer.testing import CliRunner

from p2pmoe.cli.models import register


def test_the_group_lists_its_commands() -> None:
    app = typer.Typer()
    register(app)
    app.command("other")(lambda: None)
    shown = CliRunner().invoke(app, ["models", "--help"])
    assert shown.exit_code == 0
    for command in ("check", "inspect"):
        assert command in shown.output
