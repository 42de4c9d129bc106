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
