"""A request's figures as the API tells them: final ones, or those so far. Pure."""

from p2pmoe.backbone.generation import FinishReason, GenerationEnd, Timings, Usage
from p2pmoe.backbone.scheduling.sequence import SequenceState

__all__ = ["end_of"]


def end_of(
    sequence: SequenceState, reason: FinishReason | None, n_tokens: int
) -> GenerationEnd:
    """Return the figures of a sequence of which `n_tokens` were delivered."""
    trace = sequence.trace
    return GenerationEnd(
        finish_reason=reason,
        usage=Usage(
            prompt_tokens=sequence.n_prompt,
            completion_tokens=n_tokens,
            cached_tokens=sequence.n_cached,
            drafted_tokens=sequence.n_drafted,
            accepted_draft_tokens=sequence.n_accepted,
        ),
        timings=Timings(
            queued_s=trace.queued_s,
            prefill_s=trace.prefill_s,
            decode_s=trace.decode_s,
            calls=trace.tier_calls(),
            round_trips=trace.decode_trips,
            prefill_round_trips=trace.prefill_trips,
            bytes_up=trace.bytes_up,
            bytes_down=trace.bytes_down,
            failovers=trace.failovers,
            hedges=trace.hedges,
            fetched_bytes=trace.fetched_bytes,
            dropped_calls=trace.dropped_calls,
            wait_s=trace.decode_wait_s,
            cache_hits=trace.cache_hits,
            read_bytes=trace.read_bytes,
            minor_faults=trace.minor_faults,
            major_faults=trace.major_faults,
        ),
    )
