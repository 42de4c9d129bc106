import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.arithmetic import lanes
from tests.support import arithmetic_oracle as oracle

RNG = np.random.default_rng(7)


def rough(*shape: int) -> np.ndarray:
    """Values of many sizes, so that any other order of summation shows."""
    return (RNG.standard_normal(shape) * 10.0 ** RNG.integers(-4, 5, shape)).astype(
        "f4"
    )


@pytest.mark.parametrize("m", [1, 7, 8, 9, 16, 64, 100, 2048])
@pytest.mark.parametrize("outer", [(1,), (2,), (3, 5)])
def test_sums_in_eight_lanes(m: int, outer: tuple[int, ...]) -> None:
    values = rough(*outer, m)
    total = lanes.sum_in_lanes(values)
    assert total.shape == (*outer, 1)
    expected = [oracle.lane_sum(row) for row in values.reshape(-1, m).tolist()]
    assert total.ravel().tolist() == expected


@pytest.mark.parametrize("shape", [(1, 1, 32), (1, 2, 64), (3, 1, 64), (5, 33, 96)])
def test_products_in_eight_lanes(shape: tuple[int, int, int]) -> None:
    n, n_rows, n_cols = shape
    weights, x = rough(n_rows, n_cols), rough(n, n_cols)
    result = lanes.lane_matmul(lanes.lane_weights(weights), x)
    expected = [
        [oracle.lane_dot(w, row) for w in weights.tolist()] for row in x.tolist()
    ]
    assert result.tolist() == expected


def test_the_size_of_a_chunk_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, x = lanes.lane_weights(rough(24, 256)), rough(2, 256)
    whole = lanes.lane_matmul(weights, x)
    for terms in (1, 8 * 24 * 3, 8 * 24 * 31):
        monkeypatch.setattr(lanes, "_MAX_TERMS", terms)
        assert np.array_equal(lanes.lane_matmul(weights, x), whole)


@given(st.integers(1, 300), st.integers(2, 40), st.integers(1, 3))
def test_numpy_adds_whole_rows_in_ascending_order(
    n_terms: int, width: int, n: int
) -> None:
    """All of it rests on this: reduce over an outer axis is a plain loop."""
    terms = rough(n_terms, width, n)
    total = np.zeros((width, n), np.float32)
    for term in terms:
        total = total + term
    reduced = np.add.reduce(terms, axis=0, initial=np.float32(0))
    assert np.array_equal(reduced, total)


def test_fold_pairs_neighbours() -> None:
    values = rough(8, 3)
    expected = [oracle.lane_sum(column) for column in values.T.tolist()]
    assert lanes.fold_lanes(values).tolist() == expected
