"""The oracle is the best there is, and a trace that fits is read once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.cache_policies import POLICIES, Product, belady
from tests.benchmarks.routing_traces import Trace, skewed_trace


def made(seed: int, n_tokens: int = 40) -> Trace:
    rng = np.random.default_rng(seed)
    drawn = rng.random((n_tokens, 3, 6)) ** 2 + np.arange(6) / 8
    return Trace(name="made", n_expert=6, experts=np.sort(drawn.argsort()[..., :2]))


@settings(max_examples=15)
@given(st.integers(0, 50), st.integers(1, 18))
def test_no_policy_is_better_than_the_oracle(seed: int, room: int) -> None:
    trace = made(seed)
    best = belady(trace, room)
    for name, policy in POLICIES.items():
        assert policy(trace, room) <= best + 1e-12, name


def test_with_room_for_all_each_expert_is_read_once() -> None:
    trace = made(1)
    n_used = len(np.unique(trace.ids))
    expected = 1 - n_used / trace.ids.size
    assert belady(trace, 18) == pytest.approx(expected)
    product = Product(trace, 18)
    assert product.hits == pytest.approx(expected)
    assert product.n_reads == n_used


def test_the_made_trace_is_skewed_and_the_same_each_time() -> None:
    trace = skewed_trace(200)
    assert (np.diff(trace.experts, axis=2) > 0).all()
    assert (trace.experts == skewed_trace(200).experts).all()
    counts = np.sort(np.bincount(trace.ids.ravel(), minlength=512))[::-1]
    assert counts[:128].sum() > 0.5 * counts.sum()
