"""`p2pmoe ledger receipts`: which vouchers came, and why any was refused."""

import pytest

from p2pmoe.errors import ConfigurationError
from tests.support.ledger_commands import document_of, run, world_with_vouchers


@pytest.fixture
def world(tmp_path):
    return world_with_vouchers(tmp_path)


def test_receipts(world, tmp_path):
    lines = document_of(tmp_path, "receipts")["vouchers"]
    assert [line["status"] for line in lines].count("pending") == 2
    rejected = document_of(tmp_path, "receipts", "--status", "rejected")["vouchers"]
    assert [line["reason"] for line in rejected] == ["signature"]
    other = document_of(tmp_path, "receipts", "--period", "2025")["vouchers"]
    assert other == []
    worker = world.worker.id.hex()
    assert len(document_of(tmp_path, "receipts", "--worker", worker)["vouchers"]) == 3
    assert run(tmp_path, "receipts").stdout.startswith("time\tstatus\treason\t")
    why = document_of(tmp_path, "receipts", "--status", "pending", "--why")["vouchers"]
    assert {line["why"] for line in why} == {"its tab is not closed: more may come"}
    assert run(tmp_path, "receipts", "--why").stdout.splitlines()[0].endswith("\twhy")
    wrong = run(tmp_path, "receipts", "--status", "lost")
    assert isinstance(wrong.exception, ConfigurationError)
