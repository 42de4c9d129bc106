"""What one request has cost, by phase and tier."""

from p2pmoe.backbone.plan import Tier
from p2pmoe.backbone.request_trace import RequestTrace


def test_waits_are_counted_apart_in_prefill_and_decoding() -> None:
    trace = RequestTrace()
    trace.tripped(0.5)
    trace.decoding = True
    trace.tripped(0.25)
    trace.tripped(0.25)
    assert (trace.prefill_trips, trace.decode_trips) == (1, 2)
    assert (trace.wait_s, trace.decode_wait_s) == (1.0, 0.5)


def test_calls_are_told_by_tier() -> None:
    trace = RequestTrace()
    trace.calls[Tier.EDGE] += 2
    trace.calls[Tier.DISK] += 1
    calls = trace.tier_calls()
    assert (calls.ram, calls.disk, calls.hub, calls.edge) == (0, 1, 0, 2)
