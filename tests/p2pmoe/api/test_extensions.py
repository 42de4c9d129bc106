from p2pmoe.api.answers import Answer, Piece
from p2pmoe.api.extensions import answer_extensions, step_extensions
from tests.p2pmoe.api.test_bodies import ended
from tests.support.api import FIGURES, HASH, PASS


def test_one_choice_has_its_figures_and_tokens() -> None:
    body = answer_extensions(Answer(choices=[ended()], n_prompt=3), [Piece()])
    assert body["timings"]["tokens_per_s"] == 4.0
    own = body["p2pmoe"]
    assert own["calls"] == {"ram": 1, "disk": 0, "hub": 0, "edge": 2}
    assert own["round_trips_per_token"] == 1.5
    assert own["tokens"] == [5, 6]
    assert own["drafted_tokens"] == 8
    assert "steps" not in own


def test_several_choices_have_sums_and_each_its_tokens() -> None:
    both = Answer(choices=[ended(0), ended(1)], n_prompt=3)
    own = answer_extensions(both, [Piece(), Piece(steps=(FIGURES,))])["p2pmoe"]
    assert own["calls"]["edge"] == 4
    assert own["choices"][0] == {"index": 0, "tokens": [5, 6]}
    assert own["choices"][1]["steps"][0]["seconds"] == 0.25


def test_steps_and_hashes_of_a_chunk() -> None:
    assert step_extensions(Piece(text="a")) == {}
    piece = Piece(steps=(FIGURES,), hashes=(HASH,), passes=(PASS,))
    own = step_extensions(piece)["p2pmoe"]
    assert own["hashes"] == [[4, 1, None, "0001020304050607"]]
    assert own["steps"][0]["calls"]["hub"] == 3
    assert own["passes"] == [{"start_s": 1.5, "seconds": 0.25, "trips": 2}]
