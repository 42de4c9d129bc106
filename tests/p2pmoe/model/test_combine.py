import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.model.combine import combine, rows_by_expert
from p2pmoe.model.errors import CombineRefused
from p2pmoe.model.experts import Routing
from tests.support import arithmetic_oracle as oracle

WIDTH = 32
# 3 tokens, k = 2, 4 experts; nobody needs expert 2.
EXPERTS = np.array([[0, 1], [1, 3], [0, 3]])
WEIGHTS = np.array([[0.75, 0.25], [0.5, 0.5], [0.125, 1.5]], np.float32)
ROUTING = Routing(experts=EXPERTS, weights=WEIGHTS)
OVERFLOW = np.array([0x7C00], np.uint16).view(np.float16)[0]  # what 65,520 becomes
X = np.arange(3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)


def outputs(routing: Routing = ROUTING, x: np.ndarray = X):
    """Expert e returns (e + 1) * x."""
    return {
        e: (rows, x[rows] * np.float32(e + 1))
        for e, rows in rows_by_expert(routing).items()
    }


def test_b14_each_token_and_slot_gets_one_row() -> None:
    calls = rows_by_expert(ROUTING)
    assert {e: rows.tolist() for e, rows in calls.items()} == {
        0: [0, 2],
        1: [0, 1],
        3: [1, 2],
    }
    assert sum(len(rows) for rows in calls.values()) == 3 * 2
    total = combine(ROUTING, outputs())
    factors = [0.75 * 1 + 0.25 * 2, 0.5 * 2 + 0.5 * 4, 0.125 * 1 + 1.5 * 4]
    assert np.allclose(total, X * np.array(factors, np.float32)[:, None])


def test_b14_rows_in_another_order_are_put_right() -> None:
    given = outputs()
    turned = {
        e: (rows[::-1], values[::-1]) for e, (rows, values) in reversed(given.items())
    }
    assert np.array_equal(combine(ROUTING, turned), combine(ROUTING, given))


def changed(expert: int, rows: list[int]):
    own = outputs()
    own[expert] = (np.array(rows), np.ones((len(rows), WIDTH), np.float32))
    return own


@pytest.mark.parametrize(
    "wrong",
    [
        changed(0, [0]),  # one row too few
        changed(0, [0, 1, 2]),  # one row too many
        changed(0, [0, 0]),  # a row twice
        changed(0, [0, 1]),  # a token that did not ask
        changed(0, [0, 3]),  # a token that does not exist
        changed(0, [0, -1]),
        changed(2, [0]),  # an expert that nobody asked
        changed(4, [0]),  # an expert that does not exist
        changed(-1, [0]),
        changed(0xFFFFFFFF, [0]),
        {0: outputs()[0]},
        {},
    ],
)
def test_b14_anything_else_is_refused(wrong) -> None:
    with pytest.raises(CombineRefused):
        combine(ROUTING, wrong)


def test_b14_rows_and_values_must_be_as_many() -> None:
    own = outputs()
    own[0] = (own[0][0], own[0][1][:1])
    with pytest.raises(CombineRefused, match="expert 0 returned 1 rows for 2"):
        combine(ROUTING, own)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, OVERFLOW])
def test_b14_a_value_that_is_not_finite_is_refused(bad: float) -> None:
    own = outputs()
    own[3][1][1, 7] = bad
    with pytest.raises(CombineRefused, match="finite"):
        combine(ROUTING, own)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_sum_is_the_plain_loop_in_ascending_id(
    n: int, top_k: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    experts = np.sort(
        np.array([rng.choice(8, top_k, replace=False) for _ in range(n)]), axis=1
    )
    weights = rng.standard_normal((n, top_k)).astype(np.float32)
    routing = Routing(experts=experts, weights=weights)
    x = rng.standard_normal((n, WIDTH)).astype(np.float32)
    total = combine(routing, outputs(routing, x))
    for i in range(n):
        expected = [0.0] * WIDTH
        for slot in range(top_k):
            y = x[i] * np.float32(experts[i, slot] + 1)
            for d in range(WIDTH):
                term = oracle.f32(float(weights[i, slot]) * float(y[d]))
                expected[d] = oracle.f32(expected[d] + term)
        assert total[i].tolist() == expected


def test_the_results_are_left_alone() -> None:
    own = outputs()
    before = {e: values.copy() for e, (_, values) in own.items()}
    combine(ROUTING, own)
    assert all(np.array_equal(own[e][1], before[e]) for e in own)
