"""How one round's drafts are put together and cut."""

import pytest

from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.speculation.drafted import (
    Ahead,
    Guess,
    Round,
    cut,
    joined,
    wish_of,
)
from p2pmoe.backbone.speculation.drafts import Draft, DraftSource
from p2pmoe.backbone.speculation.rounds import RoundPlan
from p2pmoe.backbone.trace import RequestTrace
from tests.support.lanes import a_request
from tests.support.recalling_model import RecallingModel

SELF = DraftSource.SELF


def a_sequence(stop_ids: frozenset[int] = frozenset()) -> SequenceState:
    sequence = SequenceState(
        request=a_request([1, 2, 3], 50, stop_ids=stop_ids),
        trace=RequestTrace(),
        submitted=0.0,
        deadline=1.0,
    )
    sequence.cache = RecallingModel().new_cache(10)
    sequence.cache.tokens = [1, 2]
    return sequence


def a_draft(*tokens: int, chance: float = 0.5, **foreseen: tuple[int, ...]) -> Draft:
    layers = {int(name[1:]): experts for name, experts in foreseen.items()}
    return Draft(
        source=SELF, tokens=tokens, chances=(chance,) * len(tokens), foreseen=layers
    )


def test_a_wish_begins_behind_what_was_drafted() -> None:
    sequence = a_sequence()
    wish = wish_of(sequence, a_draft(8, 9), 5, 0.1)
    assert wish.tokens == [1, 2, 3, 8, 9]
    assert (wish.cache.length, wish.n) == (4, 3)
    assert wish.floor == pytest.approx(0.4)  # of what is left after a chance of 1/4
    assert sequence.tokens == [1, 2, 3]


def test_a_wish_is_for_what_the_cache_has_room_for() -> None:
    sequence = a_sequence()
    assert wish_of(sequence, None, 100).n == 8
    assert wish_of(sequence, a_draft(*[0] * 8), 100) is None
    assert wish_of(sequence, a_draft(8), 1) is None
    assert wish_of(sequence, a_draft(8), 5, 0.51) is None
    sequence.cache = None
    assert wish_of(sequence, None, 5) is None


def test_drafts_that_go_on_are_one() -> None:
    first, second = a_draft(1, 2, l0=(5, 6)), a_draft(3, l0=(6, 7), l2=(1,))
    both = joined(first, second)
    assert both.tokens == (1, 2, 3)
    assert both.chances == (0.5,) * 3
    assert both.foreseen == {0: (5, 6, 7), 2: (1,)}
    assert joined(None, second) is second
    assert joined(first, None) is first
    assert joined(None, None) is None


def test_a_draft_is_cut_before_what_is_not_worth_its_row() -> None:
    sequence = a_sequence()
    assert cut(a_draft(1, 2, 3), sequence, 0.0).tokens == (1, 2, 3)
    assert cut(a_draft(1, 2, 3), sequence, 0.25).tokens == (1, 2)
    assert cut(a_draft(1, 2, 3), sequence, 0.6).tokens == ()


def test_a_draft_is_cut_behind_a_stop_token() -> None:
    sequence = a_sequence(frozenset({2}))
    found = cut(a_draft(1, 2, 3), sequence, 0.0)
    assert (found.tokens, found.chances) == ((1, 2), (0.5, 0.5))


def test_what_was_drafted_in_flight_fits_one_state_alone() -> None:
    sequence = a_sequence()
    cache = sequence.cache
    ahead = Ahead(draft=a_draft(4), n_tokens=3, cache=cache, capacity=10)
    assert ahead.fits(sequence, SELF)
    assert not ahead.fits(sequence, DraftSource.NGRAM)
    cache.capacity = 20  # it has grown
    assert not ahead.fits(sequence, SELF)
    cache.capacity = 10
    sequence.tokens.append(4)
    assert not ahead.fits(sequence, SELF)
    sequence.tokens.pop()
    sequence.cache = None  # it was preempted
    assert not ahead.fits(sequence, SELF)


def test_a_round_without_its_drafts() -> None:
    sequence = a_sequence()
    round_ = Round(plan=RoundPlan(source=SELF), guesses={sequence: Guess()})
    assert round_.tokens(sequence) == ()
    round_.drafts[sequence] = a_draft(1, 2)
    round_.foreseen = [{0: (1,)}]
    assert round_.tokens(sequence) == (1, 2)
    round_.give_up()
    assert round_.tokens(sequence) == ()
    assert round_.foreseen == []
