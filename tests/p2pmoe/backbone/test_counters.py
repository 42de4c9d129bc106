"""Counters add up, and their text is Prometheus'."""

from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.plan import Tier
from p2pmoe.backbone.trace import RequestTrace


def test_a_finished_request_is_added_to_the_totals() -> None:
    trace = RequestTrace()
    trace.tripped()
    trace.decoding = True
    trace.tripped()
    trace.tripped()
    trace.calls[Tier.HUB] += 3
    trace.bytes_up = 10
    trace.dropped_calls, trace.read_bytes = 5, 4096
    trace.minor_faults, trace.major_faults = 7, 2
    trace.wait_s = 1.5
    trace.hedges, trace.fetched_bytes = 6, 2048
    counters = BackboneCounters()
    counters.finished(trace, "stop", (5, 2))
    counters.failed_over("late", 4)
    page = counters.render()
    assert trace.prefill_trips == 1
    assert trace.tier_calls().hub == 3
    assert 'p2pmoe_expert_calls_total{tier="hub"} 3\n' in page
    assert "p2pmoe_round_trips_total 3\n" in page
    assert "p2pmoe_dropped_calls_total 5\n" in page
    assert "p2pmoe_read_bytes_total 4096\n" in page
    assert 'p2pmoe_page_faults_total{kind="minor"} 7\n' in page
    assert 'p2pmoe_page_faults_total{kind="major"} 2\n' in page
    assert "p2pmoe_wait_seconds_total 1.5\n" in page
    assert "p2pmoe_hedged_calls_total 6\n" in page
    assert "p2pmoe_fetched_bytes_total 2048\n" in page
    assert 'p2pmoe_tokens_total{kind="completion"} 2\n' in page
    assert 'p2pmoe_failovers_total{reason="late"} 4\n' in page
    assert 'p2pmoe_requests_total{outcome="stop"} 1\n' in page


def test_hedges_their_audits_and_duplicates_are_told_apart() -> None:
    counters = BackboneCounters()
    counters.hedges["won"] += 2
    counters.hedge_audits["agreed"] += 1
    counters.duplicate_servings += 4
    page = counters.render()
    assert 'p2pmoe_hedges_total{outcome="won"} 2' in page
    assert 'p2pmoe_hedges_total{outcome="probe"} 0' in page
    assert 'p2pmoe_hedge_audits_total{result="agreed"} 1' in page
    assert 'p2pmoe_duplicate_servings_total{paid="yes"} 4' in page
    assert 'p2pmoe_duplicate_servings_total{paid="no"} 0' in page
