"""A guard around drafters: errors, nonsense, and what is logged."""

import logging
import math

import pytest

from p2pmoe.backbone.speculation.drafts import Draft, DraftSource, DraftWish
from p2pmoe.backbone.speculation.guarded import Guards
from p2pmoe.model.sampler import SamplingSettings
from tests.support.drafters import ScriptedDraft
from tests.support.recalling_model import RecallingModel

MODEL = DraftSource.MODEL


def a_wish(number: int = 0, n: int = 3) -> DraftWish:
    cache = RecallingModel().new_cache(10)
    return DraftWish(
        number=number,
        tokens=[1, 2],
        cache=cache,
        sampling=SamplingSettings(),
        n=n,
    )


def test_what_is_drafted_comes_as_it_is() -> None:
    guards = Guards(32)
    drafting = guards.begin(ScriptedDraft(lambda wish: [3, 4, 5]), [a_wish()])
    assert [draft.tokens for draft in drafting.drafts()] == [()]
    assert drafting.advance()
    assert [draft.tokens for draft in drafting.drafts()] == [(3,)]
    while drafting.advance():
        pass
    (draft,) = drafting.drafts()
    assert draft.tokens == (3, 4, 5)
    assert draft.chances == (0.5, 0.5, 0.5)
    assert guards.allow(MODEL, 0)


def test_it_stops_where_the_drafter_stops() -> None:
    drafter = ScriptedDraft(lambda wish: [3])
    drafting = Guards(32).begin(drafter, [a_wish()])
    assert drafting.advance()
    assert not drafting.advance()
    n_steps = drafter.n_steps
    assert not drafting.advance()
    assert drafter.n_steps == n_steps


@pytest.mark.parametrize(
    ("tokens", "kept"),
    [((3, 32, 4), (3,)), ((-1,), ()), ((3, 4, 5, 6, 99), (3, 4, 5))],
)
def test_tokens_that_are_none_are_cut_off(
    tokens: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    guards = Guards(32)
    draft = guards.cleaned(Draft(source=MODEL, tokens=tokens), a_wish())
    assert draft.tokens == kept
    assert len(draft.chances) == len(kept)
    assert guards.allow(MODEL, 0) == (len(kept) == 3)


def test_chances_are_numbers_one_for_each_token() -> None:
    draft = Draft(source=MODEL, tokens=(1, 2, 3), chances=(math.nan, 0.5))
    assert Guards(32).cleaned(draft, a_wish()).chances == (0.0, 0.5, 0.0)


def test_an_error_is_off_for_those_it_was_drafting_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def guess(wish: DraftWish) -> list[int]:
        raise MemoryError("no memory for drafts")

    guards = Guards(32)
    with caplog.at_level(logging.WARNING):
        for numbers in ((1, 2), (3,)):
            wishes = [a_wish(number) for number in numbers]
            drafting = guards.begin(ScriptedDraft(guess), wishes)
            assert not drafting.advance()
            assert [draft.tokens for draft in drafting.drafts()] == [()] * len(wishes)
    assert [guards.allow(MODEL, number) for number in range(5)] == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert guards.allow(DraftSource.NGRAM, 1)
    assert len(caplog.records) == 1
    guards.forget(1)
    assert guards.allow(MODEL, 1)


def test_drafts_for_others_than_were_asked_for_are_none() -> None:
    class Short(ScriptedDraft):
        def begin(self, wishes):
            drafting = super().begin(wishes)
            drafting.drafts = list
            return drafting

    guards = Guards(32)
    drafting = guards.begin(Short(lambda wish: [1]), [a_wish()])
    assert drafting.advance()
    (draft,) = drafting.drafts()
    assert draft.tokens == ()
