"""Experts of a made-up model are used as unevenly as was asked."""

import numpy as np
import pytest

from tests.benchmarks.synthetic_skew import skewed_bias, zipf_use


@pytest.mark.parametrize(("n_expert", "top_k", "s"), [(64, 4, 1.0), (32, 4, 0.9)])
def test_use_falls_with_the_rank_and_adds_up(n_expert, top_k, s):
    use = zipf_use(n_expert, top_k, s)
    assert use.sum() == pytest.approx(top_k)
    assert (np.diff(use) <= 0).all()
    assert use.max() < 1
    assert use[5] / use[11] == pytest.approx(2**s)


def test_no_expert_is_taken_more_than_once_by_a_token():
    use = zipf_use(16, 8, 1.2)
    assert use.sum() == pytest.approx(8)
    assert use.max() == 0.97


def test_biases_give_that_use_on_other_logits():
    bias = skewed_bias(32, 4, 1.0, np.random.default_rng(1))
    logits = np.random.default_rng(2).standard_normal((8192, 32))
    order = np.argsort(-(1 / (1 + np.exp(-logits)) + bias), axis=1)[:, :4]
    found = np.sort(np.bincount(order.ravel(), minlength=32))[::-1] / 8192
    assert np.abs(found / zipf_use(32, 4, 1.0) - 1).max() < 0.25
