import numpy as np
import pytest

from p2pmoe.backbone.speculation.drafts import DraftWish
from p2pmoe.backbone.speculation.growth import Growth
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.sampler import SamplingSettings, sample

GREEDY = SamplingSettings(temperature=0.0)
LIKELY = np.log(np.array([0.1, 0.6, 0.3], np.float32))


def wish(n=4, floor=0.0, sampling=GREEDY, tokens=(1, 2)) -> DraftWish:
    return DraftWish(
        number=1,
        tokens=tokens,
        cache=KvCache(1, ()),
        sampling=sampling,
        n=n,
        floor=floor,
    )


def test_it_ends_at_what_was_wished_and_at_the_room() -> None:
    for growth in (Growth(wish(n=2), 9), Growth(wish(n=9), 2)):
        while growth.wants_more:
            growth.draw(LIKELY)
        assert growth.drawn == [1, 1]
        assert growth.chances == pytest.approx([0.6, 0.6])
        assert growth.last == [1]
    assert not Growth(wish(), 0).wants_more


def test_it_ends_before_a_token_that_is_too_unlikely() -> None:
    growth = Growth(wish(floor=0.3), 9)
    while growth.wants_more:
        growth.draw(LIKELY)
    assert growth.drawn == [1, 1]  # 0.36, and 0.216 is below


def test_it_draws_as_the_request_does() -> None:
    settings = SamplingSettings(seed=7, frequency_penalty=0.5)
    growth = Growth(wish(n=6, sampling=settings), 9)
    tokens = [1, 2]
    while growth.wants_more:
        growth.draw(LIKELY)
        tokens.append(sample(LIKELY, settings, tokens, len(tokens)))
    assert growth.drawn == tokens[2:]


def test_a_token_that_can_hardly_come_has_a_chance_all_the_same() -> None:
    growth = Growth(wish(sampling=SamplingSettings(logit_bias=((0, 100.0),))), 9)
    growth.draw(np.array([-50.0, 0.0, 40.0], np.float32))
    assert 0.0 <= growth.chances[0] < 1e-30
