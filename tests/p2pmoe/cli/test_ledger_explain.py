"""`p2pmoe ledger explain`."""

import pytest

from ledger.errors import NotFound
from tests.support.ledger_commands import document_of, run, world_with_vouchers


@pytest.fixture
def world(tmp_path):
    return world_with_vouchers(tmp_path)


def test_explain(world, tmp_path):
    worker = world.worker.id.hex()
    transfers = document_of(tmp_path, "register", worker)["transfers"]
    named = transfers[0]["transfer"]
    document = document_of(tmp_path, "explain", named)
    titles = [step["step"] for step in document["steps"]]
    assert titles == ["transfer", "voucher", "grant", "prices", "leaves"]
    amount_uc = transfers[0]["amount_uc"]
    assert sum(line["amount_uc"] for line in document["experts"]) == amount_uc
    leaves = document_of(tmp_path, "explain", named, "--leaves")["leaves"]
    assert [leaf["serving"] for leaf in leaves] == [0, 1, 2]
    plain = run(tmp_path, "explain", named[:8]).stdout.splitlines()
    assert plain[0] == "step\tname\tvalue"
    assert f"transfer\tamount_uc\t{amount_uc}" in plain
    assert "layer\texpert\tservings\trows\tunit_price_uc\tamount_uc" in plain


def test_a_note_steers_nothing(tmp_path, world):
    """Whatever the operator or a file wrote as a note is shown, never obeyed."""
    with world.open(tmp_path) as store:
        store.fund(world.backbone.id, 5, "thanks\x1b[2J\tno\ncolumn").result(60)
    backbone = world.backbone.id.hex()
    words = ("register", backbone, "--kind", "client_deposit")
    named = document_of(tmp_path, *words)["transfers"][-1]["transfer"]
    plain = run(tmp_path, "explain", named).stdout
    assert "\x1b" not in plain
    assert len(plain.splitlines()) == 1 + 8 + 1
    assert isinstance(run(tmp_path, "explain", "00" * 16).exception, NotFound)
