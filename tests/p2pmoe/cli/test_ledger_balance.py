"""Balances and the trial balance, in JSON and in plain columns."""

import pytest

from p2pmoe.errors import ConfigurationError
from tests.support.ledger_commands import document_of, run, world_with_vouchers


@pytest.fixture
def world(tmp_path):
    return world_with_vouchers(tmp_path)


def test_balance(world, tmp_path):
    accounts = document_of(tmp_path, "balance")["accounts"]
    assert sum(each["balance_uc"] for each in accounts) == 0
    worker = world.worker.id.hex()
    (one,) = document_of(tmp_path, "balance", "--account", worker[:8])["accounts"]
    assert one == {
        "account": worker,
        "kind": "worker_pending",
        "balance_uc": world.earned_uc,
        "balance": f"0.{world.earned_uc:06d}",
    }
    before = document_of(tmp_path, "balance", "--as-of", "2026-11")["accounts"]
    assert before == []  # none was opened before
    later = document_of(tmp_path, "balance", "--as-of", "2026-12")["accounts"]
    assert later == accounts
    plain = run(tmp_path, "balance").stdout.splitlines()
    assert plain[0] == "account\tkind\tbalance_uc\tbalance"
    assert len(plain) == 5


def test_trial_balance(world, tmp_path):
    document = document_of(tmp_path, "trial-balance")
    assert document["balanced"] is True
    assert document["debits_uc"] == document["credits_uc"] > 0
    assert run(tmp_path, "trial-balance").stdout.splitlines()[-1].startswith("total\t")


def test_register(world, tmp_path):
    worker = world.worker.id.hex()
    document = document_of(tmp_path, "register", worker[:8], "--period", "2026-11")
    assert (document["opening_uc"], document["kind"]) == (0, "worker_pending")
    assert [line["code"] for line in document["transfers"]] == ["earn", "earn"]
    assert document["transfers"][-1]["balance_uc"] == world.earned_uc
    result = run(tmp_path, "register", worker)
    assert result.stdout.splitlines()[0].startswith("time\tcode\tamount_uc")
    assert "from 0 micro-credits" in result.stderr
    wrong = run(tmp_path, "register", worker, "--kind", "petty_cash")
    assert isinstance(wrong.exception, ConfigurationError)
