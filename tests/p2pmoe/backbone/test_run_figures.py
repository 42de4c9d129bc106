"""A request's figures, as they are so far."""

from p2pmoe.backbone.generation import FinishReason, TierCalls
from p2pmoe.backbone.plan import Tier
from p2pmoe.backbone.run_figures import end_of
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.trace import RequestTrace
from tests.support.lanes import a_request


def test_they_are_the_traces_and_the_delivered_tokens() -> None:
    trace = RequestTrace()
    sequence = SequenceState(
        request=a_request([1, 2, 3], 9), trace=trace, submitted=0.0, deadline=1.0
    )
    sequence.n_cached = 2
    trace.calls[Tier.DISK] = 4
    trace.queued_s, trace.prefill_s, trace.decode_s = 1.0, 2.0, 3.0
    trace.decode_trips, trace.prefill_trips, trace.decode_wait_s = 5, 6, 0.5
    trace.bytes_up, trace.bytes_down, trace.failovers = 7, 8, 9
    trace.dropped_calls, trace.cache_hits, trace.read_bytes = 10, 11, 12
    trace.minor_faults, trace.major_faults = 13, 14
    end = end_of(sequence, FinishReason.STOP, 5)
    assert end.finish_reason is FinishReason.STOP
    usage, timings = end.usage, end.timings
    assert (usage.prompt_tokens, usage.completion_tokens) == (3, 5)
    assert usage.cached_tokens == 2
    assert timings.calls == TierCalls(disk=4)
    assert (timings.queued_s, timings.prefill_s, timings.decode_s) == (1.0, 2.0, 3.0)
    assert (timings.round_trips, timings.prefill_round_trips) == (5, 6)
    assert (timings.wait_s, timings.failovers, timings.dropped_calls) == (0.5, 9, 10)
    assert (timings.bytes_up, timings.bytes_down) == (7, 8)
    assert (timings.cache_hits, timings.read_bytes) == (11, 12)
    assert (timings.minor_faults, timings.major_faults) == (13, 14)
