import dataclasses

from p2pmoe.api.answers import Answer, ChoiceEnd, Piece, joined
from p2pmoe.backbone.generation import TierCalls, Usage
from p2pmoe.text.tool_calls.calls import CalledTool
from tests.p2pmoe.api.test_bodies import ended
from tests.support.api import PASS


def with_cached(index: int, prompt: int, n_cached: int) -> ChoiceEnd:
    own = ended(index)
    end = dataclasses.replace(own.end, usage=Usage(cached_tokens=n_cached))
    return dataclasses.replace(own, prompt=prompt, end=end)


def test_tokens_and_figures_are_sums() -> None:
    answer = Answer(choices=[ended(0), ended(1)], n_prompt=3)
    assert answer.n_tokens == 4
    assert answer.timings.calls == TierCalls(ram=2, edge=4)
    assert answer.timings.decode_s == 1.0
    assert answer.usage.drafted_tokens == 16


def test_what_one_choice_took_from_another_was_not_cached() -> None:
    choices = [with_cached(0, 0, 0), with_cached(1, 0, 9)]
    choices += [with_cached(2, 1, 4), with_cached(3, 1, 5)]
    assert Answer(choices=choices, n_prompt=20).n_cached == 4


def test_pieces_become_one() -> None:
    call = CalledTool("x", "{}")
    whole = joined([Piece(text="a"), Piece(text="b", calls=(call,)), Piece()])
    assert (whole.text, whole.calls) == ("ab", (call,))
    assert joined([Piece(passes=(PASS,)), Piece(passes=(PASS,))]).passes == (PASS, PASS)
    assert joined([]) == Piece()
