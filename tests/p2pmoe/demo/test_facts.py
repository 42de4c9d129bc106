"""The demo's arithmetic: what counts as true, and what does not."""

import dataclasses

import pytest

from p2pmoe.demo.facts import Metrics, hash_tokens
from tests.support.demo_facts import GOOD_FACTS

PAGE = """# HELP p2pmoe_expert_calls_total calls
# TYPE p2pmoe_expert_calls_total counter
p2pmoe_expert_calls_total{tier="ram"} 40
p2pmoe_expert_calls_total{tier="edge"} 60
p2pmoe_dispatches_in_flight{worker="aa",path="relay"} 2
p2pmoe_failovers_total 1
rubbish
"""

FACTS = GOOD_FACTS


def test_metrics_are_summed_and_keyed():
    metrics = Metrics(PAGE)
    assert metrics.total("p2pmoe_expert_calls_total") == 100
    assert metrics.total("p2pmoe_expert_calls_total", tier="edge") == 60
    assert metrics.by("p2pmoe_dispatches_in_flight", "worker") == {"aa": 2}
    assert metrics.total("p2pmoe_failovers_total") == 1
    assert metrics.total("absent") == 0


def test_the_report_holds_what_the_issue_asks_for():
    report = FACTS.as_json()
    assert report["identical_to_single_process"] is True
    assert report["servings"] == {"accepted": 10, "unsigned_at_kill": 2}
    assert report["receipts"] == {"count": 8, "verified": 8}
    assert report["tokens_sha256"] == hash_tokens((1, 2))
    assert FACTS.remote_share == pytest.approx(0.6)
    assert FACTS.holds


@pytest.mark.parametrize(
    "change",
    [
        {"single_process_tokens": (1, 3)},
        {"tokens": (), "single_process_tokens": ()},
        {"ledger_verified": False},
        {"servings_accepted": 11},
        {"receipts_verified": 7},
    ],
)
def test_one_thing_wrong_and_the_demo_does_not_hold(change):
    assert not dataclasses.replace(FACTS, **change).holds


def test_no_calls_is_no_share():
    assert dataclasses.replace(FACTS, calls={}).remote_share == 0.0
