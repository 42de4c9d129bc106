import numpy as np
import pytest

from p2pmoe.model.experts import Routing
from p2pmoe.model.logits import Logits
from p2pmoe.model.step import SequencePart
from tests.support.mini_models import write_mini
from tests.support.tiny_model import TinyModel, load_local

PROMPT = [5, 9, 2, 71]


@pytest.fixture
def mini(tmp_path) -> TinyModel:
    return load_local(
        write_mini(tmp_path / "m", "qwen3moe")
    )  # two layers, both with experts


def test_a_step_stops_at_each_layers_experts(mini: TinyModel) -> None:
    cache = mini.model.new_cache(4)
    walk = mini.model.walk([SequencePart(PROMPT, cache, Logits.ALL)], mini.experts)
    for n_passed in (1, 2):
        pending = walk.advance()
        assert pending is not None
        assert pending.is_ready()
        assert (walk.n_passed, cache.length) == (n_passed, 0)
        with pytest.raises(ValueError, match="not over"):
            _ = walk.logits
    assert walk.advance() is None
    assert cache.length == 4
    whole = mini.run(PROMPT, mini.model.new_cache(4))
    assert walk.logits[0].tobytes() == whole.tobytes()


def test_what_is_here_may_be_left_for_later(mini: TinyModel) -> None:
    class Counted:
        def __init__(self) -> None:
            self.n_computed = self.n_abandoned = 0

        def begin(self, *asked):
            pending = mini.experts.begin(*asked)
            self.finish, self.is_ready = pending.finish, pending.is_ready
            return self

        def compute(self) -> None:
            self.n_computed += 1
            if self.n_computed == 3:
                raise ValueError("at fault")

        def abandon(self) -> None:
            self.n_abandoned += 1

    own, cache = Counted(), mini.model.new_cache(4)
    walk = mini.model.walk([SequencePart(PROMPT, cache)], own)
    before = np.geterr()
    assert not walk.leaves_work
    walk.ask()
    assert (walk.leaves_work, own.n_computed) == (True, 0)
    walk.compute()
    walk.compute()
    assert (walk.leaves_work, own.n_computed) == (False, 1)
    walk.advance()
    assert own.n_computed == 2
    assert walk.ask() is None
    whole = mini.run(PROMPT, mini.model.new_cache(4))
    assert walk.logits[0].tobytes() == whole[-1:].tobytes()
    failing = mini.model.walk([SequencePart(PROMPT, mini.model.new_cache(4))], own)
    failing.ask()
    with pytest.raises(ValueError, match="at fault"):
        failing.compute()
    assert (own.n_abandoned, failing.leaves_work) == (1, False)
    assert np.geterr() == before


def test_two_steps_may_take_turns(mini: TinyModel) -> None:
    caches = [mini.model.new_cache(4) for _ in range(2)]
    own = [PROMPT, PROMPT[::-1]]
    walks = [
        mini.model.walk([SequencePart(tokens, cache, Logits.ALL)], mini.experts)
        for tokens, cache in zip(own, caches, strict=True)
    ]
    before = np.geterr()
    for _ in range(3):
        for walk in walks:
            walk.advance()
        assert np.geterr() == before
    for tokens, walk in zip(own, walks, strict=True):
        alone = mini.run(tokens, mini.model.new_cache(4))
        assert walk.logits[0].tobytes() == alone.tobytes()


def test_a_step_given_up_leaves_its_cache(mini: TinyModel) -> None:
    cache = mini.model.new_cache(4)
    walk = mini.model.walk([SequencePart(PROMPT, cache)], mini.experts)
    walk.advance()
    walk.close()
    assert cache.length == 0


def test_what_is_under_way_in_a_step_given_up_is_given_back(mini: TinyModel) -> None:
    given_back = []

    class Asked:
        def begin(self, *asked):
            pending = mini.experts.begin(*asked)
            self.finish, self.compute = pending.finish, pending.compute
            return self

        def abandon(self):
            given_back.append(walk.n_passed)

    walk = mini.model.walk([SequencePart(PROMPT, mini.model.new_cache(4))], Asked())
    walk.advance()
    walk.advance()
    walk.close()
    assert given_back == [2]
    walk.close()
    assert given_back == [2]


def test_rows_go_where_the_caller_says(mini: TinyModel) -> None:
    asked = []

    def first_only(layer, router, hidden) -> Routing:
        asked.append(layer)
        n = len(hidden)
        return Routing(
            experts=np.zeros((n, 1), np.int64), weights=np.ones((n, 1), np.float32)
        )

    part = SequencePart(PROMPT, mini.model.new_cache(4), Logits.ALL)
    logits = mini.model.walk([part], mini.experts, first_only).run()[0]
    assert asked == [0, 1]
    assert logits.tobytes() != mini.run(PROMPT, mini.model.new_cache(4)).tobytes()
