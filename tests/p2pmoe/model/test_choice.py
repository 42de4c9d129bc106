import numpy as np
import pytest

from p2pmoe.model.choice import RouterSettings, ScoreFunction, choose

SOFTMAX, SIGMOID = ScoreFunction.SOFTMAX, ScoreFunction.SIGMOID


def settings(function=SOFTMAX, top_k=2, *, norm=False, scale=1.0) -> RouterSettings:
    return RouterSettings(score_function=function, top_k=top_k, norm=norm, scale=scale)


def chosen(logits, bias=None, own=None):
    bias = None if bias is None else np.array(bias, np.float32)
    experts, weights = choose(np.array([logits], np.float32), bias, own or settings())
    return experts.tolist(), weights


@pytest.mark.parametrize(
    ("norm", "scale", "expected"),
    [
        (False, 1.0, [0.643914, 0.236883]),
        (True, 1.0, [0.731059, 0.268941]),
        (False, 2.5, [1.609785, 0.592208]),
        (True, 2.5, [1.827647, 0.672354]),
    ],
)
def test_b12_softmax_then_choose_then_norm_then_scale(norm, scale, expected) -> None:
    experts, weights = chosen(
        [2.0, 1.0, 0.0, -1.0], own=settings(norm=norm, scale=scale)
    )
    assert experts == [[0, 1]]
    assert np.allclose(weights[0], expected, atol=1e-6)


def test_b12_mixed_results() -> None:
    for norm, expected in ((False, 1.117680), (True, 1.268941)):
        experts, weights = chosen([2.0, 1.0, 0.0, -1.0], own=settings(norm=norm))
        mixed = ((np.array(experts[0]) + 1) * weights[0]).sum()
        assert abs(mixed - expected) < 1e-6


def test_b12_all_experts_and_one_expert() -> None:
    experts, weights = chosen([2.0, 1.0, 0.0, -1.0], own=settings(top_k=4))
    assert experts == [[0, 1, 2, 3]]
    assert abs(weights.sum() - 1.0) < 1e-6
    _, weights = chosen([2.0, 1.0, 0.0, -1.0], own=settings(top_k=1, norm=True))
    assert weights.tolist() == [[1.0]]


def test_b13_the_bias_chooses_and_never_mixes() -> None:
    own = settings(SIGMOID, norm=True)
    experts, weights = chosen([0.0, 1.0, 2.0, -1.0], [5.0, 0.0, 0.0, 5.0], own)
    assert experts == [[0, 3]]
    assert np.allclose(weights[0], [0.650245, 0.349755], atol=1e-6)


def test_b13_a_small_score_survives_a_large_bias() -> None:
    own = settings(SIGMOID, top_k=1)
    experts, weights = chosen([-17.0, -17.5], [12.0, 0.0], own)
    assert experts == [[0]]
    assert abs(weights[0, 0] - 4.14e-8) < 1e-10


@pytest.mark.parametrize("function", [SOFTMAX, SIGMOID])
def test_b13_equal_scores_go_to_the_lower_id(function: ScoreFunction) -> None:
    own = settings(function)
    assert chosen([1.0, 1.0, 1.0, 1.0], own=own)[0] == [[0, 1]]
    assert chosen([0.0, 1.0, 0.0, 1.0, 1.0], own=own)[0] == [[1, 3]]


def test_experts_ascend_whatever_their_scores() -> None:
    assert chosen([0.0, 1.0, 2.0, 3.0])[0] == [[2, 3]]
