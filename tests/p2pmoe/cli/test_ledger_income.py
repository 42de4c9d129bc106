"""`p2pmoe ledger income|prices`."""

import pytest

from ledger.errors import NotFound
from p2pmoe.errors import ConfigurationError
from tests.support.ledger_commands import document_of, run, world_with_vouchers


@pytest.fixture
def world(tmp_path):
    return world_with_vouchers(tmp_path)


@pytest.mark.parametrize("by", ["worker", "backbone", "day"])
def test_income(world, tmp_path, by):
    document = document_of(tmp_path, "income", "--by", by)
    assert document["total_uc"] == world.earned_uc
    (line,) = document["income"]
    assert (line["servings"], line["amount_uc"]) == (4, world.earned_uc)
    result = run(tmp_path, "income", "--by", by, "--period", "2026-11")
    assert result.stdout.splitlines()[0].startswith(f"{by}\tservings\trows")
    assert "[2026-11-01T00:00:00.000000Z" in result.stderr


def test_income_of_one_worker_and_of_nobody(world, tmp_path):
    worker = world.worker.id.hex()
    mine = document_of(tmp_path, "income", "--by", "day", "--worker", worker[:8])
    assert mine["total_uc"] == world.earned_uc
    assert document_of(tmp_path, "income", "--by", "expert")["income"] == []
    assert document_of(tmp_path, "income", "--period", "2025")["total_uc"] == 0
    wrong = run(tmp_path, "income", "--by", "mood")
    assert isinstance(wrong.exception, ConfigurationError)


def test_prices(world, tmp_path):
    (table,) = document_of(tmp_path, "prices")["prices"]
    assert table["epoch"] == 7
    rows = document_of(tmp_path, "prices", "--epoch", "7")["prices"]
    assert [row["expert"] for row in rows] == ["all others", "1/3"]
    plain = run(tmp_path, "prices", "--epoch", "7").stdout.splitlines()
    columns = "expert multiplier price_uc price model demand target coverage"
    assert plain[0].split("\t") == columns.split()
    assert isinstance(run(tmp_path, "prices", "--epoch", "8").exception, NotFound)


def test_no_prices_yet(tmp_path):
    from tests.support.ledger_world import World

    World().open(tmp_path).close()
    result = run(tmp_path, "prices")
    assert (result.stdout, result.stderr) == ("", "no prices yet\n")
