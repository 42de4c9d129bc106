"""`p2pmoe ledger audit report`."""

import pytest

from tests.support.ledger_commands import document_of, run, world_with_vouchers


@pytest.fixture
def world(tmp_path):
    return world_with_vouchers(tmp_path)


def test_report(world, tmp_path):
    document = document_of(tmp_path, "audit", "report")
    assert document["balanced"] is True
    assert document["ledger"] == world.ledger.id.hex()
    lines = {(line["what"], line["state"]): line for line in document["lines"]}
    assert lines["transfers", "earn"]["amount_uc"] == world.earned_uc
    assert lines["rejected", "signature"]["count"] == 1
    plain = run(tmp_path, "audit", "report").stdout
    assert "balanced\tTrue" in plain
    assert "what\tstate\tcount\tamount_uc" in plain
