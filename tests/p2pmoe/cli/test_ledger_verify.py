"""`p2pmoe ledger verify` finds what is not as it must be."""

import json

import pytest

from ledger.errors import DifferenceFound
from tests.support.ledger_commands import document_of, run, world_with_vouchers


@pytest.fixture
def world(tmp_path):
    return world_with_vouchers(tmp_path)


def test_verify(world, tmp_path):
    document = document_of(tmp_path, "verify")
    assert document["verified"] is True
    assert (document["receipts"], document["vouchers"]) == (4, 1)
    assert document["earned_uc"] == world.earned_uc
    assert "verified\tTrue" in run(tmp_path, "verify").stdout
    path = tmp_path / "leaves" / "00000001.leaves"
    raw = bytearray(path.read_bytes())
    raw[20] ^= 1
    path.write_bytes(raw)
    result = run(tmp_path, "verify", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["verified"] is False
    assert "root" in document["difference"]
    plain = run(tmp_path, "verify")
    assert isinstance(plain.exception, DifferenceFound)
