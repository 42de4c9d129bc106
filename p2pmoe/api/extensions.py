"""What answers hold besides OpenAI's fields: the objects `timings` and `p2pmoe`.

The last chunk of a choice, and a whole answer, say where the time went and what it
took: tiers, trips, traffic, failovers, page faults, and the ids of the tokens that
were counted (`choices` with each one's, where there are several). With `explain` of a
request `p2pmoe` holds `steps` and `passes` too (passes/documents.py), with `trace`
`hashes`, in a stream in the chunk of each step.
"""

from collections.abc import Sequence
from dataclasses import asdict

from p2pmoe.api.answers import Answer, Piece
from p2pmoe.backbone.generation import Timings, TracedHash
from p2pmoe.passes.documents import pass_document

__all__ = ["answer_extensions", "step_extensions"]


def answer_extensions(answer: Answer, pieces: Sequence[Piece]) -> dict[str, object]:
    """Return both objects for whole choices, `pieces` being what each gave."""
    timings = answer.timings
    told = [
        {"tokens": list(choice.tokens), **_details(piece)}
        for choice, piece in zip(answer.choices, pieces, strict=True)
    ]
    if len(told) == 1:
        own = told[0]
    else:
        own = {"choices": [{"index": n, **each} for n, each in enumerate(told)]}
    figures = _figures(timings, answer.n_tokens)
    usage = answer.usage
    drafts = {
        "drafted_tokens": usage.drafted_tokens,
        "accepted_draft_tokens": usage.accepted_draft_tokens,
    }
    return {
        "timings": _timings(timings, answer.n_tokens),
        "p2pmoe": {**own, **figures, **drafts},
    }


def step_extensions(piece: Piece) -> dict[str, object]:
    """Return what a chunk says of its steps; nothing unless it was asked for."""
    details = _details(piece)
    return {"p2pmoe": details} if details else {}


def _details(piece: Piece) -> dict[str, object]:
    details: dict[str, object] = {}
    if piece.steps:
        details["steps"] = [asdict(step) for step in piece.steps]
    if piece.passes:
        details["passes"] = [pass_document(told) for told in piece.passes]
    if piece.hashes:
        details["hashes"] = [_hash(each) for each in piece.hashes]
    return details


def _hash(traced: TracedHash) -> list[object]:
    return [traced.position, traced.layer, traced.expert, traced.digest.hex()]


def _figures(timings: Timings, n_tokens: int) -> dict[str, object]:
    return {
        "calls": asdict(timings.calls),
        "round_trips": timings.round_trips,
        "prefill_round_trips": timings.prefill_round_trips,
        "round_trips_per_token": timings.round_trips / max(n_tokens, 1),
        "bytes_up": timings.bytes_up,
        "bytes_down": timings.bytes_down,
        "failovers": timings.failovers,
        "hedges": timings.hedges,
        "fetched_bytes": timings.fetched_bytes,
        "dropped_calls": timings.dropped_calls,
        "wait_s": timings.wait_s,
        "cache_hits": timings.cache_hits,
        "read_bytes": timings.read_bytes,
        "minor_faults": timings.minor_faults,
        "major_faults": timings.major_faults,
    }


def _timings(timings: Timings, n_tokens: int) -> dict[str, float]:
    per_second = n_tokens / timings.decode_s if timings.decode_s > 0 else 0.0
    return {
        "queued_s": timings.queued_s,
        "prefill_s": timings.prefill_s,
        "decode_s": timings.decode_s,
        "tokens_per_s": per_second,
    }
