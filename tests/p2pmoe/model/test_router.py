import numpy as np
import pytest

from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.router import Router, RouterSettings, ScoreFunction, choose

SOFTMAX, SIGMOID = ScoreFunction.SOFTMAX, ScoreFunction.SIGMOID


def settings(function=SOFTMAX, top_k=2, *, norm=False, scale=1.0) -> RouterSettings:
    return RouterSettings(score_function=function, top_k=top_k, norm=norm, scale=scale)


def route(logits, bias=None, own=None):
    bias = None if bias is None else np.array(bias, np.float32)
    return choose(np.array([logits], np.float32), bias, own or settings())


@pytest.mark.parametrize(
    ("norm", "scale", "weights"),
    [
        (False, 1.0, [0.643914, 0.236883]),
        (True, 1.0, [0.731059, 0.268941]),
        (False, 2.5, [1.609785, 0.592208]),
        (True, 2.5, [1.827647, 0.672354]),
    ],
)
def test_b12_softmax_then_choose_then_norm_then_scale(norm, scale, weights) -> None:
    routing = route([2.0, 1.0, 0.0, -1.0], own=settings(norm=norm, scale=scale))
    assert routing.experts.tolist() == [[0, 1]]
    assert np.allclose(routing.weights[0], weights, atol=1e-6)


def test_b12_mixed_results() -> None:
    for norm, expected in ((False, 1.117680), (True, 1.268941)):
        routing = route([2.0, 1.0, 0.0, -1.0], own=settings(norm=norm))
        mixed = ((routing.experts[0] + 1) * routing.weights[0]).sum()
        assert abs(mixed - expected) < 1e-6


def test_b12_all_experts_and_one_expert() -> None:
    every = route([2.0, 1.0, 0.0, -1.0], own=settings(top_k=4))
    assert every.experts.tolist() == [[0, 1, 2, 3]]
    assert abs(every.weights.sum() - 1.0) < 1e-6
    one = route([2.0, 1.0, 0.0, -1.0], own=settings(top_k=1, norm=True))
    assert one.weights.tolist() == [[1.0]]


def test_b13_the_bias_chooses_and_never_mixes() -> None:
    own = settings(SIGMOID, norm=True)
    routing = route([0.0, 1.0, 2.0, -1.0], [5.0, 0.0, 0.0, 5.0], own)
    assert routing.experts.tolist() == [[0, 3]]
    assert np.allclose(routing.weights[0], [0.650245, 0.349755], atol=1e-6)


def test_b13_a_small_score_survives_a_large_bias() -> None:
    own = settings(SIGMOID, top_k=1)
    routing = route([-17.0, -17.5], [12.0, 0.0], own)
    assert routing.experts.tolist() == [[0]]
    assert abs(routing.weights[0, 0] - 4.14e-8) < 1e-10


@pytest.mark.parametrize("function", [SOFTMAX, SIGMOID])
def test_b13_equal_scores_go_to_the_lower_id(function: ScoreFunction) -> None:
    own = settings(function)
    assert route([1.0, 1.0, 1.0, 1.0], own=own).experts.tolist() == [[0, 1]]
    assert route([0.0, 1.0, 0.0, 1.0, 1.0], own=own).experts.tolist() == [[1, 3]]


def test_b13_a_token_alone_and_among_17() -> None:
    rng = np.random.default_rng(5)
    weight = rng.standard_normal((32, 64)).astype(np.float32)
    bias = rng.standard_normal(32).astype(np.float32)
    hidden = rng.standard_normal((17, 64)).astype(np.float32)
    for function in (SOFTMAX, SIGMOID):
        router = Router(weight, bias, settings(function, 4, norm=True, scale=2.0))
        together = router.route(hidden)
        for i in range(17):
            alone = router.route(hidden[i : i + 1])
            assert np.array_equal(alone.experts[0], together.experts[i])
            assert np.array_equal(alone.weights[0], together.weights[i])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_b13_a_bias_or_weight_that_is_not_finite_is_refused(bad: float) -> None:
    weight = np.ones((4, 32), np.float32)
    bias = np.array([0.0, bad, 0.0, 0.0], np.float32)
    with pytest.raises(ModelRefused, match="bias"):
        Router(weight, bias, settings())
    weight[1, 1] = bad
    with pytest.raises(ModelRefused, match="weight"):
        Router(weight, None, settings())


@pytest.mark.parametrize("top_k", [0, 5])
def test_more_experts_than_there_are_is_refused(top_k: int) -> None:
    with pytest.raises(ModelRefused, match="of 4 experts"):
        Router(np.ones((4, 32), np.float32), None, settings(top_k=top_k))


def test_experts_ascend_whatever_their_scores() -> None:
    assert route([0.0, 1.0, 2.0, 3.0]).experts.tolist() == [[2, 3]]
