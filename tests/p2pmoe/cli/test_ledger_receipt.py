"""`ledger receipt prove|verify`: from the folder to a file that proves itself."""

import json

import pytest
import typer
from typer.testing import CliRunner

from ledger.errors import DifferenceFound, FormatRefused, NotFound
from p2pmoe.cli.ledger import register
from p2pmoe.errors import ConfigurationError
from tests.support.ledger_world import Party, World


@pytest.fixture
def world(tmp_path):
    world = World()
    with world.open(tmp_path / "ledger") as store:
        for name in ("worker", "other"):
            party = Party(name)
            issued = store.grant(world.order(worker=party)).result(60)
            world.tab(issued, worker=party, tab=b"tab-%4s" % name[:4].encode()).file(
                store, 0, 1, 2
            )
        issued = store.grant(world.order()).result(60)
        world.tab(issued, tab=b"tab-othe").file(store, 2, 3)
    return world


def run(tmp_path, *words):
    app = typer.Typer()
    register(app)
    data = ("--data", str(tmp_path / "ledger"))
    return CliRunner().invoke(app, ["ledger", "receipt", *words, *data])


TAB, SHARED = b"tab-work".hex(), b"tab-othe".hex()


def test_prove_then_verify_offline(world, tmp_path):
    path = tmp_path / "receipt.json"
    assert run(tmp_path, "prove", TAB, "1", "--output", str(path)).exit_code == 0
    shown = run(tmp_path, "prove", TAB, "1")
    assert shown.stdout == path.read_text()
    result = run(tmp_path, "verify", str(path), "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["verified"] is True
    assert document["worker"] == world.worker.id.hex()
    assert (document["serving"], document["unchecked"]) == (1, [])
    ids = [
        *("--network", world.network.id.hex()),
        *("--ledger", world.ledger.id.hex()),
        *("--market", world.market.id.hex()),
    ]
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    plain = run(nowhere, "verify", str(path), *ids)
    assert plain.exit_code == 0
    assert "verified\tTrue" in plain.stdout


@pytest.mark.parametrize("name", ["nowhere/receipt.json", "."])
def test_a_receipt_that_cannot_be_written_is_one_line(world, tmp_path, name):
    result = run(tmp_path, "prove", TAB, "1", "--output", str(tmp_path / name))
    assert isinstance(result.exception, ConfigurationError)
    assert "cannot write" in str(result.exception)


def test_a_receipt_that_proves_nothing_is_exit_1(world, tmp_path):
    path = tmp_path / "receipt.json"
    run(tmp_path, "prove", TAB, "1", "--output", str(path))
    other = run(tmp_path, "verify", str(path), "--market", Party("x").id.hex())
    assert isinstance(other.exception, DifferenceFound)
    assert other.exception.exit_code == 1
    path.write_text("{}")
    assert isinstance(run(tmp_path, "verify", str(path)).exception, FormatRefused)
    missing = run(tmp_path, "verify", str(tmp_path / "none"))
    assert isinstance(missing.exception, ConfigurationError)


def test_which_tab_is_meant(world, tmp_path):
    assert run(tmp_path, "prove", SHARED, "0").exit_code == 0
    both = run(tmp_path, "prove", SHARED, "2")
    assert "name --worker" in str(both.exception)
    for words in (
        ("--worker", world.worker.id.hex()[:10]),
        ("--worker", Party("other").id.hex()),
    ):
        assert run(tmp_path, "prove", SHARED, "2", *words).exit_code == 0
    for words in ((TAB, "9"), (TAB, "1", "--epoch", "1"), ("00" * 8, "1")):
        assert isinstance(run(tmp_path, "prove", *words).exception, NotFound)
    wrong = run(tmp_path, "prove", "xyz", "1")
    assert isinstance(wrong.exception, ConfigurationError)
