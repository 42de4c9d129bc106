"""`p2pmoe demo --json`, for real: every claim, the stored hash, a worker killed."""

import json
import subprocess
import sys

import pytest

from tests.support.demo_facts import DEMO_TOKENS_SHA256

MAX_FLOAT_SERVINGS = 4096
MAX_WORKER_BYTES = 150 * 1000 * 1000


@pytest.fixture(scope="module")
def report() -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "p2pmoe", "demo", "--json"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout))


def test_the_tokens_are_those_of_a_single_process(report):
    assert report["identical_to_single_process"] is True
    assert report["tokens_sha256"] == DEMO_TOKENS_SHA256
    assert len(report["tokens"]) == 64


def test_every_accepted_serving_has_a_receipt_or_was_unsigned_at_the_kill(report):
    servings = report["servings"]
    assert (
        servings["accepted"]
        == report["receipts"]["count"] + servings["unsigned_at_kill"]
    )
    assert servings["unsigned_at_kill"] <= MAX_FLOAT_SERVINGS
    assert report["receipts"]["count"] > 100


def test_the_ledger_verifies_every_receipt(report):
    assert report["ledger_verified"] is True
    assert report["receipts"]["verified"] == report["receipts"]["count"]
    assert sum(report["payouts"].values()) > 0


def test_much_of_the_work_is_remote_and_a_worker_was_lost(report):
    calls = report["calls"]
    assert calls["hub"] + calls["edge"] >= 0.3 * sum(calls.values())
    assert report["killed_worker"].startswith("edge")
    assert report["round_trips_per_token"] > 0
    assert report["tokens_per_s"] > 0


def test_each_worker_stays_small(report):
    assert len(report["worker_memory_bytes"]) == 4
    for name, n_bytes in report["worker_memory_bytes"].items():
        assert 0 < n_bytes < MAX_WORKER_BYTES, name
