import weakref

import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.self_test import fixed_matrix
from p2pmoe.model.choice import RouterSettings, ScoreFunction
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.router import Router
from p2pmoe.model.row_operations import NUMPY_OPERATIONS
from p2pmoe.model.tensors import take_rows

SOFTMAX, SIGMOID = ScoreFunction.SOFTMAX, ScoreFunction.SIGMOID


def settings(function=SOFTMAX, top_k=2, *, norm=False, scale=1.0) -> RouterSettings:
    return RouterSettings(score_function=function, top_k=top_k, norm=norm, scale=scale)


def router(weight, bias, own) -> Router:
    return Router(weight, bias, own, NUMPY_OPERATIONS)


def test_b13_a_token_alone_and_among_17() -> None:
    rng = np.random.default_rng(5)
    weight = rng.standard_normal((32, 64)).astype(np.float32)
    bias = rng.standard_normal(32).astype(np.float32)
    hidden = rng.standard_normal((17, 64)).astype(np.float32)
    for function in (SOFTMAX, SIGMOID):
        own = router(weight, bias, settings(function, 4, norm=True, scale=2.0))
        together = own.route(hidden)
        for i in range(17):
            alone = own.route(hidden[i : i + 1])
            assert np.array_equal(alone.experts[0], together.experts[i])
            assert np.array_equal(alone.weights[0], together.weights[i])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_b13_a_bias_or_weight_that_is_not_finite_is_refused(bad: float) -> None:
    weight = np.ones((4, 32), np.float32)
    bias = np.array([0.0, bad, 0.0, 0.0], np.float32)
    with pytest.raises(ModelRefused, match="bias"):
        router(weight, bias, settings())
    weight[1, 1] = bad
    with pytest.raises(ModelRefused, match="weight"):
        router(weight, None, settings())


@pytest.mark.parametrize("top_k", [0, 5])
def test_more_experts_than_there_are_is_refused(top_k: int) -> None:
    with pytest.raises(ModelRefused, match="of 4 experts"):
        router(np.ones((4, 32), np.float32), None, settings(top_k=top_k))


def test_a_bias_of_the_logits_chooses_and_weighs() -> None:
    rng = np.random.default_rng(5)
    weight = rng.standard_normal((8, 32)).astype(np.float32)
    hidden = rng.standard_normal((3, 32)).astype(np.float32)
    logit_bias = np.arange(8, dtype=np.float32)
    own = settings(ScoreFunction.SOFTMAX_OF_CHOSEN)
    routed = Router(weight, None, own, NUMPY_OPERATIONS, logit_bias).route(hidden)
    logits = NUMPY_OPERATIONS.lane_product(weight)(hidden) + logit_bias
    experts, weights = NUMPY_OPERATIONS.choose(logits, None, own)
    assert np.array_equal(routed.experts, experts)
    assert routed.weights.tobytes() == weights.tobytes()
    logit_bias[3] = np.nan
    with pytest.raises(ModelRefused, match="bias is not finite"):
        Router(weight, None, own, NUMPY_OPERATIONS, logit_bias)


def test_a_matrix_is_laid_out_by_the_first_token() -> None:
    matrix = fixed_matrix("router", Format.Q8_0, 4, 32)
    hidden = np.random.default_rng(1).standard_normal((3, 32)).astype(np.float32)
    values = take_rows(matrix, [0, 1, 2, 3])
    own = router(matrix, None, settings())
    watch = weakref.ref(matrix)
    del matrix
    assert watch() is not None
    for _ in range(2):
        routed = own.route(hidden)
        expected = router(values, None, settings()).route(hidden)
        assert np.array_equal(routed.experts, expected.experts)
        assert np.array_equal(routed.weights, expected.weights)
    assert watch() is None
    with pytest.raises(ModelRefused, match="of 4 experts"):
        router(fixed_matrix("router", Format.Q8_0, 4, 32), None, settings(top_k=5))
