import math

import numpy as np
import pytest

from p2pmoe.backbone.speculation.drafts import DraftSource, DraftWish
from p2pmoe.backbone.speculation.growth import Growth, chance_of
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.sampler import SamplingSettings, sample

GREEDY = SamplingSettings(temperature=0.0)
LIKELY = np.log(np.array([0.1, 0.6, 0.3], np.float32))
MARGIN = float(np.float64(LIKELY[1]) - np.float64(LIKELY[2]))


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
        assert growth.chances == [chance_of(MARGIN)] * 2
        assert growth.last == [1]
    assert not Growth(wish(), 0).wants_more


def test_it_ends_before_a_token_that_is_too_unlikely() -> None:
    chance = chance_of(MARGIN)
    growth = Growth(wish(floor=chance**2 - 1e-6), 9)
    while growth.wants_more:
        growth.draw(LIKELY)
    assert growth.drawn == [1, 1]


def test_it_draws_as_the_request_does() -> None:
    settings = SamplingSettings(seed=7, frequency_penalty=0.5)
    growth = Growth(wish(n=6, sampling=settings), 9)
    tokens = [1, 2]
    while growth.wants_more:
        growth.draw(LIKELY)
        tokens.append(sample(LIKELY, settings, tokens, len(tokens)))
    assert growth.drawn == tokens[2:]


def test_the_more_a_token_won_by_the_likelier_it_is_accepted() -> None:
    chances = [chance_of(margin) for margin in (0.0, 0.5, 1.0, 5.0, 1e300, math.inf)]
    assert chances == sorted(chances)
    assert 0.3 < chances[0] < 0.6
    assert chances[-1] == pytest.approx(1.0)


def test_the_noise_of_a_sampled_draft_counts() -> None:
    chances = set()
    for seed in range(5):
        growth = Growth(wish(sampling=SamplingSettings(seed=seed)), 9)
        growth.draw(LIKELY)
        chances.add(growth.chances[0])
    assert len(chances) == 5


def test_it_becomes_a_draft_of_whoever_drew() -> None:
    growth = Growth(wish(n=2), 9)
    assert growth.draft(DraftSource.SELF).tokens == ()
    while growth.wants_more:
        growth.draw(LIKELY)
    draft = growth.draft(DraftSource.SELF)
    assert (draft.source, draft.tokens) == (DraftSource.SELF, (1, 1))
    assert draft.chances == (chance_of(MARGIN),) * 2
