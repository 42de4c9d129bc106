"""`ledger dispute`: papers come as files, results are computed again."""

import json

import pytest

from ledger.closings import ClosedState
from ledger.dispute_papers import DisputeAnswer, split_paper
from ledger.errors import DifferenceFound
from mobile_worker.clock import SystemClock
from p2pmoe.errors import ConfigurationError
from tests.support.dispute_commands import DisputeCase, done, refused, run
from tests.support.ledger_world import NOVEMBER_US
from tests.support.served_leaf import serving


@pytest.fixture(autouse=True)
def surroundings(monkeypatch):
    """Compute by numpy, and let it be the time of the tests' worlds."""
    monkeypatch.setenv("P2PMOE_KERNEL", "numpy")
    monkeypatch.setattr(SystemClock, "wall_us", lambda _: NOVEMBER_US)


def test_a_cheat_is_found_by_computing_again(tmp_path):
    case = DisputeCase(tmp_path, bytes(len(serving().results)))
    case.open()
    words = ("ledger", "dispute", "judge", 1, "--model", "pocket", *case.data)
    dry = run(*words, "--json")
    assert dry.exit_code == 1
    document = json.loads(dry.stdout)
    assert document["recomputed"] == serving().out_hash.hex()
    assert (document["equal"], document["committed"]) == (False, False)
    assert document["outcome"] == "upheld"
    assert document["reversed_uc"] + document["forfeited_uc"] == 20
    assert document["forfeited"] == "0.000002"
    assert case.state()[0].state is ClosedState.DISPUTED
    assert run(*words, "--commit").exit_code == 1
    again = ("ledger", "dispute", "check", 1, "--model", "pocket", *case.data)
    assert f"verdict\trecomputed {serving().out_hash.hex()}" in done(*again).stdout
    state, penalty_uc = case.state()
    assert (state.state, penalty_uc) == (ClosedState.REVERSED, 2)


def test_an_honest_worker_answers_without_having_kept_anything(tmp_path):
    case = DisputeCase(tmp_path, serving().results)
    case.open()
    claim = tmp_path / "claim again"
    done("ledger", "dispute", "show", 1, "--claim", claim, *case.data)
    assert claim.read_bytes() == (tmp_path / "claim").read_bytes()
    refused(
        ConfigurationError,
        "has no answer",
        *("ledger", "dispute", "show", 1),
        "--answer",
        tmp_path / "answer",
        *case.data,
    )
    words = ("receipts", "answer", claim, "-o", tmp_path / "answer")
    model = ("--model", "pocket", "--receipt", case.receipt)
    done(*words, *model, *case.worker)
    raw, signature = split_paper((tmp_path / "answer").read_bytes())
    assert DisputeAnswer.parse(raw).opening.raw == serving().results
    handed = done("ledger", "dispute", "answer", tmp_path / "answer", *case.data)
    assert "state\tanswered" in handed.stdout
    shown = done(
        "ledger",
        "dispute",
        "show",
        1,
        "--json",
        *case.data,
        "--answer",
        tmp_path / "copy",
    )
    assert json.loads(shown.stdout)["state"] == "answered"
    assert (tmp_path / "copy").read_bytes() == raw + signature
    listed = done("ledger", "dispute", "list", "--state", "answered", *case.data)
    assert "wrong_results\tbackbone" in listed.stdout
    judged = done("ledger", "dispute", "judge", 1, "--model", "pocket", *case.data)
    assert "outcome\tdismissed" in judged.stdout


def test_an_auditor_finds_a_verdict_that_is_not_what_comes_out(tmp_path):
    case = DisputeCase(tmp_path, serving().results)
    case.open()
    check = ("ledger", "dispute", "check", 1, "--model", "pocket", *case.data)
    assert json.loads(done(*check, "--json").stdout)["equal"] is True
    lie = {"id": 1, "recomputed": "00" * 16, "referee": "nobody", "commit": True}
    with case.world.open(tmp_path / "ledger") as store:
        store.operate("dispute.judge", lie).result(60)
    refused(DifferenceFound, "recomputed 0000", *check)


def test_a_number_that_no_dispute_can_have(tmp_path):
    for number in (0, 1 << 63, 10**30):
        words = ("ledger", "dispute", "show", number, "--data", tmp_path)
        assert run(*words).exit_code == 2
