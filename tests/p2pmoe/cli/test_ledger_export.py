"""`p2pmoe ledger export`."""

import csv

import pytest

from p2pmoe.errors import ConfigurationError
from tests.support.ledger_commands import run, world_with_vouchers


@pytest.fixture
def world(tmp_path):
    return world_with_vouchers(tmp_path)


def test_export(world, tmp_path):
    result = run(tmp_path, "export", "--csv", "--period", "2026-11")
    rows = list(csv.DictReader(result.stdout.splitlines()))
    earned = [int(r["amount_uc"]) for r in rows if r["code"] == "earn"]
    assert sum(earned) == world.earned_uc
    for formats in ([], ["--csv", "--journal"]):
        wrong = run(tmp_path, "export", *formats)
        assert isinstance(wrong.exception, ConfigurationError)
    journal = run(tmp_path, "export", "--journal").stdout
    assert f"Liabilities:Workers:{world.worker.id.hex().upper()}:Pending" in journal
