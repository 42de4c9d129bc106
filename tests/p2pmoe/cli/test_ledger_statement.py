"""`p2pmoe ledger statement`, in every format and any zone."""

import csv
import json
import time

import pytest

from ledger.statement_document import STATEMENT_COLUMNS
from p2pmoe.errors import ConfigurationError
from tests.support.ledger_commands import document_of, run, world_with_vouchers
from tests.support.ledger_world import World


@pytest.fixture
def world(tmp_path):
    return world_with_vouchers(tmp_path)


def test_statement(world, tmp_path):
    worker = world.worker.id.hex()
    document = document_of(
        tmp_path, "statement", "--worker", worker, "--period", "2026-11"
    )
    assert document["earned_uc"] == document["closing_uc"] == world.earned_uc
    assert document["period"]["start"] == "2026-11-01T00:00:00.000000Z"
    assert document["period"]["end"] == "2026-12-01T00:00:00.000000Z"
    assert (document["vouchers"], document["servings"]) == (2, 4)
    assert document["rejected"] == [
        {"reason": "signature", "vouchers": 1, "claimed_uc": world.earned_uc}
    ]
    everyone = document_of(tmp_path, "statement")["statements"]
    assert [each["worker"] for each in everyone] == [worker]
    plain = run(tmp_path, "statement", "--period", "2026-11").stdout
    # B38: both borders are printed.
    assert "[2026-11-01T00:00:00.000000Z, 2026-12-01T00:00:00.000000Z)" in plain
    values = dict(line.split("\t") for line in plain.splitlines())
    assert len(values) == len(plain.splitlines())  # no name twice
    assert values["earned_uc"] == values["pending_uc"] == str(world.earned_uc)
    assert values["paid_uc"] == "0"
    assert values["receipts rejected, signature"].startswith("1 receipt, ")
    assert values["receipts pending, open"].startswith("2 receipts, 4 servings")
    assert "proved by\tno checkpoint yet" in plain


def test_csv_and_journal(world, tmp_path):
    lines = run(tmp_path, "statement", "--format", "csv").stdout.splitlines()
    rows = list(csv.DictReader(lines))
    assert tuple(rows[0]) == STATEMENT_COLUMNS
    receipts = [int(row["amount_uc"]) for row in rows if row["section"] == "receipts"]
    assert sum(receipts) == 2 * world.earned_uc  # earned once, claimed in vain once
    worker = world.worker.id.hex()
    words = ("statement", "--format", "journal")
    journal = run(tmp_path, *words, "--worker", worker[:10]).stdout
    assert f"Liabilities:Workers:{worker.upper()}:Pending" in journal
    assert isinstance(run(tmp_path, *words).exception, ConfigurationError)
    as_json = run(tmp_path, "statement", "--format", "json").stdout
    assert json.loads(as_json) == document_of(tmp_path, "statement")


def test_of_nobody(tmp_path):
    World().open(tmp_path).close()
    result = run(tmp_path, "statement")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no worker has earned anything yet" in result.stderr
    assert document_of(tmp_path, "statement") == {"statements": []}


# Whatever prints an instant, a day or a period, one after the other.
ZONED = (
    "statement --period 2026-11",
    "statement --format csv --period 2026-10..2026-11-01",
    "statement --json",
    "receipts --why",
    "income --by day",
    "balance --as-of 2026-11-02",
    "register {worker} --period 2026-11-01",
    "export --csv --period 2026-11",
    "export --journal --period 2026-11",
    "prices",
    "explain 3",
    "audit report",
    "periods",
    "payout list",
)


def test_b38_output_is_the_same_in_every_zone(world, tmp_path, in_zone):
    worker = world.worker.id.hex()
    outputs = set()
    for zone in ("Pacific/Kiritimati", "America/Los_Angeles"):
        in_zone(zone)
        results = [run(tmp_path, *line.format(worker=worker).split()) for line in ZONED]
        assert [result.exit_code for result in results] == [0] * len(ZONED)
        outputs.add("".join(result.output for result in results))
    (output,) = outputs
    assert len(output.splitlines()) > 3 * len(ZONED)


@pytest.fixture
def in_zone(monkeypatch):
    """Move this process to another time zone, and back in the end."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        hours = {"Pacific/Kiritimati": 14, "America/Los_Angeles": -8}
        assert time.localtime(1_767_225_600).tm_gmtoff == hours[zone] * 3600

    yield move
    monkeypatch.undo()
    time.tzset()
