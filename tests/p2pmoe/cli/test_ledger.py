"""`p2pmoe ledger`: the group of commands, and what wrong input does to any of them."""

import pytest
import typer
from typer.testing import CliRunner

from ledger.errors import LedgerError, StoreUnavailable
from p2pmoe.cli.ledger import register
from tests.support.ledger_commands import run, world_with_vouchers

COMMANDS = (
    "balance",
    "trial-balance",
    "statement",
    "receipts",
    "receipt",
    "verify",
    "export",
    "register",
    "income",
    "prices",
    "explain",
    "audit",
)


@pytest.fixture
def world(tmp_path):
    return world_with_vouchers(tmp_path)


def test_wrong_input_is_one_line_with_exit_2(world, tmp_path):
    for words in (
        ("statement", "--period", "last month"),
        ("statement", "--worker", "nobody"),
        ("balance", "--as-of", "now"),
    ):
        error = run(tmp_path, *words).exception
        assert isinstance(error, LedgerError)
        assert error.exit_code == 2
        assert "\n" not in str(error)
    nothing = run(tmp_path / "nowhere", "balance").exception
    assert isinstance(nothing, StoreUnavailable)


def test_every_command_has_help():
    app = typer.Typer()
    register(app)
    listed = CliRunner().invoke(app, ["ledger", "--help"]).stdout
    for command in COMMANDS:
        assert command in listed
        result = CliRunner().invoke(app, ["ledger", command, "--help"])
        assert result.exit_code == 0
