import math
from collections import Counter

import numpy as np
import pytest

from p2pmoe.model.errors import SamplingRefused
from p2pmoe.model.sampler import (
    SamplingSettings,
    log_probabilities,
    sample,
    sample_closely,
)

LOGITS = np.log(np.array([0.5, 0.25, 0.15, 0.1], np.float32))


def draws(n: int = 4000, history=(), **settings) -> Counter[int]:
    own = SamplingSettings(seed=3, **settings)
    return Counter(sample(LOGITS, own, history, position) for position in range(n))


def test_b17_greedy_takes_the_lowest_of_equals() -> None:
    own = SamplingSettings(temperature=0.0)
    assert sample(np.array([1.0, 3.0, 3.0], np.float32), own, (), 0) == 1


def test_draws_follow_the_distribution() -> None:
    counted = draws()
    for token, share in enumerate((0.5, 0.25, 0.15, 0.1)):
        assert abs(counted[token] / 4000 - share) < 0.03


def test_temperature_sharpens() -> None:
    sharp = draws(temperature=0.5)
    assert abs(sharp[0] / 4000 - 0.25 / 0.345) < 0.03


def test_filters_keep_what_they_say() -> None:
    assert set(draws(500, top_k=2)) == {0, 1}
    assert set(draws(500, top_p=0.74)) == {0, 1}
    assert set(draws(500, top_p=0.76)) == {0, 1, 2}
    assert set(draws(500, top_p=0.0)) == {0}
    assert set(draws(500, min_p=0.29)) == {0, 1, 2}
    assert set(draws(500, min_p=1.0)) == {0}
    assert set(draws(500, top_k=3, top_p=0.8)) == {0, 1}


def test_filters_break_ties_to_the_lower_id() -> None:
    flat = np.zeros(8, np.float32)
    own = SamplingSettings(top_k=3)
    assert {sample(flat, own, (), p) for p in range(200)} == {0, 1, 2}


def test_penalties_count_what_was_seen() -> None:
    greedy = {"temperature": 0.0}
    logits = np.array([2.0, 1.5, -1.0], np.float32)

    def top(history, **settings):
        own = SamplingSettings(**greedy, **settings)
        return sample(logits, own, history, 0)

    assert top([0], presence_penalty=0.6) == 1
    assert top([0], frequency_penalty=0.3) == 0
    assert top([0, 0], frequency_penalty=0.3) == 1
    assert top([0], repetition_penalty=1.5) == 1
    assert top([0, 1], repetition_penalty=1.5) == 0
    assert top([], presence_penalty=2.0) == 0


def test_a_repeated_negative_logit_falls() -> None:
    own = SamplingSettings(temperature=0.0, repetition_penalty=2.0)
    assert sample(np.array([-1.0, -1.5], np.float32), own, [0], 0) == 1


def test_a_draw_depends_on_its_arguments_alone() -> None:
    own = SamplingSettings(temperature=0.8, top_p=0.95, seed=11)
    in_order = [sample(LOGITS, own, (), p) for p in range(50)]
    backwards = [sample(LOGITS, own, (), p) for p in reversed(range(50))]
    assert in_order == backwards[::-1]
    assert in_order != [
        sample(LOGITS, SamplingSettings(temperature=0.8, top_p=0.95, seed=12), (), p)
        for p in range(50)
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": -1},
        {"top_p": 1.1},
        {"min_p": float("nan")},
        {"repetition_penalty": 0.0},
        {"frequency_penalty": 1e9},
        {"presence_penalty": float("-inf")},
    ],
)
def test_values_out_of_range_are_refused(wrong) -> None:
    with pytest.raises(SamplingRefused, match=next(iter(wrong))):
        SamplingSettings(**wrong)


def test_log_probabilities_sum_to_one() -> None:
    many = np.random.default_rng(1).standard_normal((3, 50)).astype(np.float32) * 20
    assert np.allclose(np.exp(log_probabilities(many)).sum(axis=1), 1.0)
    assert np.allclose(log_probabilities(LOGITS), LOGITS, atol=1e-6)


@pytest.mark.parametrize("temperature", [5e-324, 1e-308, 1e-7])
@pytest.mark.parametrize("filters", [{}, {"top_p": 1e-300}, {"min_p": 1.0}])
def test_the_coldest_temperatures_take_the_largest_logit(
    temperature: float, filters: dict[str, float]
) -> None:
    logits = np.array([5.0, 1e30, 7.0, -3.0, 1e31], np.float32)
    settings = SamplingSettings(temperature=temperature, seed=3, **filters)
    assert sample(logits, settings, (), 0) == 4


def test_biases_are_added_before_the_draw() -> None:
    assert set(draws(300, logit_bias=((3, 100.0),))) == {3}
    assert set(draws(300, logit_bias=((0, -100.0), (1, -100.0)))) == {2, 3}
    own = SamplingSettings(temperature=0.0, logit_bias=((1, 1.0), (99, 5.0)))
    assert sample(LOGITS, own, (), 0) == 1


@pytest.mark.parametrize("bias", [(-1, 0.0), (0, 101.0), (0, float("nan"))])
def test_biases_have_bounds(bias: tuple[int, float]) -> None:
    with pytest.raises(SamplingRefused, match="logit_bias"):
        SamplingSettings(logit_bias=(bias,))


def test_by_how_much_a_token_won() -> None:
    own = SamplingSettings(temperature=0.0)
    token, margin = sample_closely(LOGITS, own, (), 0)
    assert (token, round(margin, 5)) == (0, round(float(np.log(2.0)), 5))
    assert sample_closely(LOGITS, SamplingSettings(top_k=1), (), 0) == (0, math.inf)


def test_what_is_drawn_closely_is_what_is_drawn() -> None:
    """The runner-up comes once the winner has lost as much, in logits."""
    for seed in range(40):
        own = SamplingSettings(temperature=0.6, seed=seed)
        token, margin = sample_closely(LOGITS, own, (), 9)
        assert token == sample(LOGITS, own, (), 9)
        for more, same in ((-1e-3, True), (1e-3, False)):
            other = LOGITS.copy()
            other[token] -= margin + more
            assert (sample(other, own, (), 9) == token) is same
