import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.model.mixing import weighted_sum
from tests.support import arithmetic_oracle as oracle


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_plain_loop_over_slots(n: int, top_k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n, top_k, 8)).astype(np.float32)
    weights = rng.standard_normal((n, top_k)).astype(np.float32)
    total = weighted_sum(values, weights)
    for i in range(n):
        expected = [0.0] * 8
        for slot in range(top_k):
            for d in range(8):
                term = oracle.f32(float(weights[i, slot]) * float(values[i, slot, d]))
                expected[d] = oracle.f32(expected[d] + term)
        assert total[i].tolist() == expected


def test_the_arguments_are_left_alone() -> None:
    values, weights = np.ones((1, 2, 8), np.float32), np.full((1, 2), 3, np.float32)
    weighted_sum(values, weights)
    assert (values == 1).all()
    assert (weights == 3).all()
