"""What a lane's step knows of each of its sequences."""

import pytest

from p2pmoe.backbone.generation import FinishReason
from p2pmoe.backbone.lane_events import DeadlinePassed
from p2pmoe.backbone.lane_rows import (
    at_fault,
    block_of,
    deadline_of,
    decodes,
    drafts_of,
    finish_of,
    part_of,
    provide_cache,
    why_over,
)
from p2pmoe.backbone.scheduling.schedule import Share
from p2pmoe.backbone.scheduling.sequence import Origin, SequenceState
from p2pmoe.backbone.speculation.drafted import Round
from p2pmoe.backbone.speculation.drafts import Draft, DraftSource
from p2pmoe.backbone.speculation.rounds import RoundPlan
from p2pmoe.backbone.speculation.verify import NOTHING, Verified
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.errors import Cancelled, ExpertsUnavailable
from p2pmoe.model.logits import Logits
from tests.support.lanes import a_request
from tests.support.recalling_model import RecallingModel

MODEL = RecallingModel()


def a_sequence(n_drawn: int = 1, **changes: object) -> SequenceState:
    """Return one that decodes: all but its last token is in its cache."""
    sequence = SequenceState(
        request=a_request([1, 2, 3], 9, **changes),
        trace=RequestTrace(),
        submitted=0.0,
        deadline=5.0,
    )
    sequence.room = 12
    sequence.tokens += [8] * n_drawn
    sequence.cache = MODEL.new_cache(12)
    sequence.cache.tokens = sequence.tokens[:-1]
    return sequence


def drafting(sequence: SequenceState, *tokens: int) -> Round:
    draft = Draft(source=DraftSource.SELF, tokens=tokens)
    return Round(plan=RoundPlan(), drafts={sequence: draft})


# Caches.


def test_a_cache_is_made_grown_taken_over_or_copied() -> None:
    sequence = a_sequence()
    sequence.cache = None
    provide_cache(sequence, MODEL, 40)
    made = sequence.cache
    assert (made.capacity, made.limit) == (12, 40)
    sequence.room = 20
    provide_cache(sequence, MODEL, 40)
    assert (sequence.cache, made.capacity) == (made, 20)
    made.tokens = [1, 2, 3]
    for is_own in (False, True):
        heir = a_sequence()
        heir.cache, heir.origin = None, Origin(cache=made, length=2, is_own=is_own)
        provide_cache(heir, MODEL, 40)
        assert heir.cache.tokens == [1, 2]
        assert (heir.cache is made) == is_own
        assert heir.origin is None


# Who drafts, and what is run.


@pytest.mark.parametrize(
    "change",
    [
        {"cache": None},
        {"parked_until": 3.0},
        {"is_suspect": True},
        {"tokens": [1, 2, 3]},  # a prompt's last token
    ],
)
def test_only_what_decodes_undisturbed_drafts(change: dict[str, object]) -> None:
    sequence = a_sequence()
    assert decodes(Share(sequence, 1))
    for name, value in change.items():
        setattr(sequence, name, value)
    assert not decodes(Share(sequence, 1))


def test_a_cancelled_sequence_does_not_draft() -> None:
    sequence = a_sequence()
    sequence.trace.cancelled = True
    assert not decodes(Share(sequence, 1))


def test_drafts_run_behind_the_last_token() -> None:
    sequence = a_sequence()
    share, round_ = Share(sequence, 1), drafting(sequence, 5, 6)
    part = part_of(share, drafts_of(share, round_))
    assert (part.tokens, part.logits) == ([8, 5, 6], Logits.ALL)
    plain = part_of(share, drafts_of(share, None))
    assert (plain.tokens, plain.logits) == ([8], Logits.LAST)


def test_a_chunk_of_a_prompt_wants_no_logits_unless_it_is_scored() -> None:
    sequence = a_sequence(0)
    sequence.cache.tokens = []
    part = part_of(Share(sequence, 2), ())
    assert (part.tokens, part.logits) == ([1, 2], Logits.NONE)
    assert part_of(Share(sequence, 3), ()).logits is Logits.LAST
    scored = a_sequence(0, scores_prompt=True)
    scored.cache.tokens = []
    assert part_of(Share(scored, 2), ()).logits is Logits.ALL


def test_a_sequence_without_a_cache_is_no_part() -> None:
    sequence = a_sequence()
    sequence.cache = None
    with pytest.raises(ValueError, match="without a cache"):
        part_of(Share(sequence, 1), ())


# Blocks.


def test_a_block_carries_what_was_asked_for_since_the_last() -> None:
    sequence = a_sequence(explains=True)
    step = StepTrace.of(sequence.trace)
    assert block_of(sequence, NOTHING, (step, 0), 1.0) is None
    verified = Verified(tokens=(4, 5), n_drafted=3, n_accepted=1)
    block = block_of(sequence, verified, (step, 0), 2.0)
    assert block.tokens == (4, 5)
    assert block.figures is not None
    assert [own.n_committed for own in block.passes] == [0, 2]
    assert (block.passes[1].n_drafted, block.passes[1].n_accepted) == (3, 1)
    assert (sequence.figures, sequence.passes, sequence.hashes) == (None, [], [])


def test_hashes_of_rows_that_were_wrong_are_dropped() -> None:
    sequence = a_sequence(traces=True)
    sequence.trace.traces = True
    sequence.trace.position = sequence.length - 1
    step = StepTrace.of(sequence.trace, 3)
    for row in range(3):
        step.hashed(row, 0, None, b"")
    block = block_of(sequence, Verified(tokens=(4,)), (step, 0), 1.0)
    assert [own.position for own in block.hashes] == [sequence.length - 1]


def test_where_the_next_token_fails_no_more_hashes_are_told_than_without_drafts() -> (
    None
):
    sequence = a_sequence(traces=True)
    sequence.trace.traces = True
    step = StepTrace.of(sequence.trace, sequence.length + 1)
    for row in range(sequence.length + 1):
        step.hashed(row, 0, None, b"")
    sequence.cache.tokens = list(sequence.tokens)  # the last one was run, as a draft
    failed = Verified(tokens=(8,), n_drafted=1, n_accepted=1, error=ValueError())
    block = block_of(sequence, failed, (step, 0), 1.0)
    assert [own.position for own in block.hashes] == [0, 1, 2]


def test_hashes_of_positions_that_run_again_are_told_once() -> None:
    """A preempted sequence computes all of its positions again."""
    sequence = a_sequence(traces=True)
    sequence.trace.traces = True
    told = []
    for first in (0, 2, 0):
        sequence.trace.position = first
        step = StepTrace.of(sequence.trace, sequence.length - first)
        for row in range(sequence.length - first):
            step.hashed(row, 0, None, b"")
        block = block_of(sequence, Verified(tokens=(4,)), (step, 0), 1.0)
        told.append([own.position for own in block.hashes])
        sequence.cache.tokens.append(4)
        sequence.tokens.append(4)
    assert told == [[0, 1, 2], [3], [4]]


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [((4,), None), ((4, 7), FinishReason.STOP), ((4,) * 9, FinishReason.LENGTH)],
)
def test_a_block_ends_a_sequence_by_its_rules(
    tokens: tuple[int, ...], reason: FinishReason | None
) -> None:
    sequence = a_sequence(0, stop_ids=frozenset({7}))
    sequence.tokens += tokens
    assert finish_of(sequence, tokens) is reason


# What goes wrong.


def test_an_error_is_of_those_whose_rows_it_names_drafts_included() -> None:
    first, second = a_sequence(), a_sequence()
    shares = [Share(first, 1), Share(second, 1)]
    step = StepTrace([(first.trace, 3), (second.trace, 1)])
    for row, owner in ((0, first), (2, first), (3, second)):
        error = ExpertsUnavailable("nobody holds expert 1", rows=[row])
        assert at_fault(shares, step, error) == [owner]
    assert at_fault(shares, step, RuntimeError("whose?")) == []
    assert at_fault(shares[:1], step, RuntimeError("its own")) == [first]
    second.trace.cancelled = True
    assert at_fault(shares, step, Cancelled("nobody wants it")) == [second]


def test_why_a_sequence_cannot_go_on() -> None:
    sequence = a_sequence()
    assert isinstance(why_over(sequence), DeadlinePassed)
    sequence.parked_by = ExpertsUnavailable("nobody holds expert 1", rows=[0])
    assert why_over(sequence) is sequence.parked_by
    sequence.trace.cancelled = True
    assert isinstance(why_over(sequence), Cancelled)


def test_the_first_deadline_counts() -> None:
    first, second = a_sequence(), a_sequence()
    second.deadline = 3.0
    assert deadline_of([Share(first, 1), Share(second, 1)]) == 3.0
