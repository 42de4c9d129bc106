"""`p2pmoe models shards`: what it writes, and what it says of it."""

import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from p2pmoe.cli.models import register
from p2pmoe.errors import ConfigurationError


def invoke(*arguments: str):
    app = typer.Typer()
    register(app)
    app.command("other")(lambda: None)
    return CliRunner().invoke(app, ["models", "shards", *arguments])


def test_the_relays_folder_is_filled(tmp_path: Path) -> None:
    shown = invoke("pocket", "--into", str(tmp_path))
    assert shown.exit_code == 0, shown.exception
    assert "experts written\t224 of 224, 11.8M" in shown.stdout
    assert len(list((tmp_path / "blobs").glob("*.shard"))) == 224
    again = json.loads(invoke("pocket", "--into", str(tmp_path), "--json").stdout)
    assert (again["experts"], again["written"], again["bytes_written"]) == (224, 0, 0)


def test_what_has_no_room_is_one_line(tmp_path: Path) -> None:
    shown = invoke("pocket", "--into", str(tmp_path), "--max", "100K")
    assert isinstance(shown.exception, ConfigurationError)
    assert "does not fit" in str(shown.exception)
    assert shown.exception.advice.startswith("raise --max")
