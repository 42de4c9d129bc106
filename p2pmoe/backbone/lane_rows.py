"""The sequences of a lane's step: their rows, their blocks, and whose an error is.

Functions of values; none of them waits or knows of other lanes.
"""

from collections.abc import Sequence
from dataclasses import replace

from p2pmoe.backbone.generation import FinishReason, GenerationStep
from p2pmoe.backbone.lane_events import DeadlinePassed
from p2pmoe.backbone.scheduling.schedule import Share
from p2pmoe.backbone.scheduling.sequence import SequenceState, add_figures
from p2pmoe.backbone.speculation.drafted import Round
from p2pmoe.backbone.speculation.verify import Verified
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.errors import Cancelled, RowsFailed
from p2pmoe.model.logits import Logits
from p2pmoe.model.model import Model
from p2pmoe.model.step import SequencePart
from p2pmoe.text.stopping import StopRules, cut_block

__all__ = [
    "at_fault",
    "block_of",
    "deadline_of",
    "decodes",
    "drafts_of",
    "finish_of",
    "note_times",
    "part_of",
    "provide_cache",
    "why_over",
]


def provide_cache(sequence: SequenceState, model: Model, limit: int) -> None:
    """Make, copy or grow a sequence's cache to its room; CacheFull, MemoryError."""
    if sequence.cache is not None:
        sequence.cache.grow(sequence.room)
        return
    origin = sequence.origin
    if origin is None:
        sequence.cache = model.new_cache(sequence.room, limit=limit)
    elif origin.is_own:
        origin.cache.truncate(origin.length)
        origin.cache.grow(sequence.room)
        sequence.cache = origin.cache
    else:
        sequence.cache = origin.cache.copy_prefix(origin.length, sequence.room)
    sequence.origin = None


def decodes(share: Share) -> bool:
    """Whether a sequence has nothing but its last token to run, and nothing wrong."""
    sequence = share.sequence
    return (
        sequence.cache is not None
        and sequence.n_drawn > 0
        and sequence.n_pending == share.n_rows == 1
        and sequence.parked_until is None
        and not (sequence.is_suspect or sequence.trace.cancelled)
    )


def drafts_of(share: Share, round_: Round | None) -> tuple[int, ...]:
    """Return what a round drafted for a share."""
    return () if round_ is None else round_.tokens(share.sequence)


def part_of(share: Share, drafts: tuple[int, ...]) -> SequencePart:
    """Return what a share runs: its tokens, and its drafts behind them."""
    sequence = share.sequence
    if sequence.cache is None:
        raise ValueError("a sequence without a cache is in a step")
    first = sequence.length
    tokens = sequence.tokens[first : first + share.n_rows]
    if drafts:
        return SequencePart([*tokens, *drafts], sequence.cache, Logits.ALL)
    wanted = Logits.LAST if share.n_rows == sequence.n_pending else Logits.NONE
    scored = len(sequence.prompt_logprobs)
    if sequence.request.scores_prompt and scored < sequence.n_prompt:
        wanted = Logits.ALL
    return SequencePart(tokens, sequence.cache, wanted)


def block_of(
    sequence: SequenceState, verified: Verified, of: tuple[StepTrace, int], now: float
) -> GenerationStep | None:
    """Return what a client is told of a pass, with what it cost if it asked; or None.

    `of` is the pass and the sequence's place in it. What is told once is forgotten.
    """
    request, (step, place) = sequence.request, of
    if request.explains:
        figures = step.figures(place)
        sequence.figures = add_figures(sequence.figures, figures)
        sequence.passes.append(
            replace(
                step.told(),
                n_drafted=verified.n_drafted,
                n_accepted=verified.n_accepted,
                n_committed=len(verified.tokens),
            )
        )
    if request.traces:  # rows of drafts that were wrong are nobody's
        first = sequence.n_hashed  # one that was preempted runs again
        # Nor is that of the last token, which is run only where the next one fails.
        end = min(sequence.length, len(sequence.tokens) - 1)
        found = step.hashes(place)
        sequence.hashes += [h for h in found if first <= h.position < end]
        sequence.n_hashed = max(first, end)
    if not verified.tokens:
        return None
    note_times(sequence, now)
    block = GenerationStep(
        tokens=verified.tokens,
        logprobs=verified.logprobs,
        figures=sequence.figures,
        hashes=tuple(sequence.hashes),
        passes=tuple(sequence.passes),
    )
    sequence.figures, sequence.hashes, sequence.passes = None, [], []
    return block


def deadline_of(shares: Sequence[Share]) -> float:
    """Return the first deadline, monotonic seconds."""
    return min(share.sequence.deadline for share in shares)


def finish_of(sequence: SequenceState, tokens: Sequence[int]) -> FinishReason | None:
    """Return which rule, if any, a block that was just drawn ends by."""
    request = sequence.request
    rules = StopRules(max_tokens=request.max_tokens, stop_ids=request.stop_ids)
    return cut_block(tokens, sequence.n_drawn - len(tokens), rules).finish


def at_fault(
    shares: Sequence[Share], step: StepTrace, error: Exception
) -> list[SequenceState]:
    """Return whose rows an error names; none if it cannot be told."""
    if len(shares) == 1:
        return [shares[0].sequence]
    if isinstance(error, Cancelled):
        return [s.sequence for s in shares if s.sequence.trace.cancelled]
    if isinstance(error, RowsFailed):
        owners = {int(step.owners[row]) for row in error.rows}
        return [shares[owner].sequence for owner in sorted(owners)]
    return []


def note_times(sequence: SequenceState, now: float) -> None:
    """Note that a sequence got tokens at `now`, monotonic seconds."""
    trace = sequence.trace
    if sequence.decode_started is None:
        began = now if sequence.started is None else sequence.started
        sequence.decode_started = now
        trace.prefill_s = now - began
        trace.decoding = True
    trace.decode_s = now - sequence.decode_started


def why_over(sequence: SequenceState) -> Exception:
    """Return what a sequence that cannot go on is told."""
    if sequence.trace.cancelled:
        return Cancelled("the request was cancelled")
    if sequence.parked_by is not None:
        return sequence.parked_by
    return DeadlinePassed(
        f"the request's deadline passed after {sequence.n_drawn} tokens"
    )
