"""`p2pmoe ledger verify` finds what is not as it must be."""

import json

import pytest

from ledger.errors import DifferenceFound
from ledger.log.checkpoint import Checkpoint, log_key, log_origin, sign_checkpoint
from p2pmoe.errors import ConfigurationError
from tests.support.honest_books import copy_of_honest_books
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


def test_a_quick_look_leaves_the_leaves_out(world, tmp_path):
    path = tmp_path / "leaves" / "00000001.leaves"
    raw = bytearray(path.read_bytes())
    raw[20] ^= 1
    path.write_bytes(raw)
    document = document_of(tmp_path, "verify", "--quick")
    assert (document["full"], document["receipts"]) == (False, 0)
    assert document["unread_receipts"] == 4
    assert run(tmp_path, "verify", "--full").exit_code == 1


def test_a_checkpoint_that_was_kept(tmp_path):
    world = copy_of_honest_books(tmp_path / "books")
    books, kept = tmp_path / "books", tmp_path / "kept"
    kept.write_bytes((books / "log/checkpoint").read_bytes())
    assert document_of(books, "verify", "--checkpoint", str(kept))["checkpoints"] == 5
    key = log_key(world.network.id, world.ledger.id)
    other = Checkpoint(log_origin(world.network.id), 12, bytes(32))
    kept.write_bytes(sign_checkpoint(other, key, world.ledger.sign).pack())
    found = run(books, "verify", "--checkpoint", str(kept))
    assert isinstance(found.exception, DifferenceFound)
    missing = run(books, "verify", "--checkpoint", str(tmp_path / "none"))
    assert isinstance(missing.exception, ConfigurationError)
