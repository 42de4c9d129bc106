"""`ledger log show|rebuild`: the newest head; a damaged folder made anew."""

import json

import pytest
import typer
from typer.testing import CliRunner

from ledger.errors import DifferenceFound, LogUnavailable
from ledger.log.note import NoteKey
from p2pmoe.cli.ledger_log import add_log_group
from tests.support.log_world import LogWorld


@pytest.fixture
def books(tmp_path):
    with LogWorld(tmp_path / "ledger") as books:
        yield books


def run(books, *words):
    app = typer.Typer()
    add_log_group(app)
    return CliRunner().invoke(app, ["log", *words, "--data", str(books.path)])


def test_the_newest_head_is_shown(books):
    assert isinstance(run(books, "show").exception, LogUnavailable)
    books.close(3)
    head = books.publish()
    values = json.loads(run(books, "show", "--json").stdout)
    assert values["cosigners"] == []
    assert (values["size"], values["root"]) == (3, head.root.hex())
    assert NoteKey.parse(values["key"]).key.hex() == values["ledger"]
    assert f"origin\t{head.origin}" in run(books, "show").stdout


def test_a_truncated_tile_is_made_anew(books):
    books.close(3)
    head = books.publish()
    tile = books.log / "tile/0/000.p/3"
    whole = tile.read_bytes()
    tile.write_bytes(whole[:40])
    books.close(1)
    with pytest.raises(DifferenceFound, match="has 40 bytes, needs 96"):
        books.publish()
    result = run(books, "rebuild", "--json")
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    assert (values["size"], values["root"]) == (3, head.root.hex())
    assert values["old_folder"].endswith("log.damaged-1")
    assert tile.read_bytes() == whole
    assert books.publish().size == 4
    assert "size\t4" in run(books, "rebuild").stdout
