"""From a serving to a receipt that log and witness stand for, on both databases."""

import json

import pytest
import typer
from typer.testing import CliRunner

from ledger.log.checkpoint import log_key, witness_key
from ledger.log.folder import LogFolder, LogReader, fetch_from
from ledger.log.tiles import Tile
from ledger.log.witness import Witness
from p2pmoe.cli.ledger_receipt import add_receipt_group
from tests.support.ledger_world import Party, World

ANNA = Party("anna")
TABS = (b"tab-0001", b"tab-0002", b"tab-0003")


@pytest.fixture
def world(ledger_database):
    """Three tabs: two closed, published and witnessed, the third still open."""
    world = World()
    world.path = ledger_database
    with world.open(ledger_database) as store:
        grant = store.grant(world.order()).result(60)
        for tab in TABS:
            is_last = tab == TABS[-1]
            side = world.tab(grant, tab=tab)
            side.file(store, 0, 1, 2)
            side.file(store, 3, final=not is_last)
            world.now_us += 1_000_000
        store.tend()
        world.seen = look(world)
        key = witness_key("anna", ANNA.id)
        note = {"note": world.seen.note.pack().hex(), "witness": key.text}
        store.operate("log.cosign", note).result(60)
        store.tend()
    return world


def look(world):
    witness = Witness(
        world.path / "witness",
        witness_key("anna", ANNA.id),
        ANNA.sign,
        lambda: world.now_us,
    )
    log = LogReader(fetch_from(world.path / "log"))
    return witness.look(log, log_key(world.network.id, world.ledger.id))


def run(world, *words):
    app = typer.Typer()
    add_receipt_group(app)
    data = ("--data", str(world.path))
    return CliRunner().invoke(app, ["receipt", *map(str, words), *data])


def test_the_log_has_what_is_closed(world):
    log = LogFolder(world.path / "log")
    assert world.seen.checkpoint.size == 2
    assert len(log.entries(Tile(0, 0, 2))) == 2
    assert log.checkpoint() == world.seen.note


def test_a_closed_tabs_receipt_is_logged_and_witnessed(world, tmp_path):
    path = tmp_path / "receipt.json"
    assert run(world, "prove", TABS[1].hex(), 3, "--output", path).exit_code == 0
    demands = ("--logged", "--witness", ANNA.id.hex(), "--json")
    verified = run(world, "verify", path, *demands)
    assert verified.exit_code == 0, verified.output
    values = json.loads(verified.stdout)
    assert (values["log_index"], values["log_size"]) == (1, 2)
    assert values["cosigned_by"] == ["anna"]
    assert values["unchecked"] == []
    other = run(world, "verify", path, "--witness", Party("ben").id.hex())
    assert other.exception.exit_code == 1
    assert "not cosigned" in str(other.exception)


def test_an_open_tabs_receipt_says_so(world, tmp_path):
    path = tmp_path / "receipt.json"
    assert run(world, "prove", TABS[2].hex(), 0, "--output", path).exit_code == 0
    values = json.loads(run(world, "verify", path, "--json").stdout)
    assert (values["verified"], values["log_index"]) == (True, None)
    assert run(world, "verify", path, "--logged").exception.exit_code == 1
