import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.model.mixing import gate_rows, weighted_sum
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


def test_a_gate_is_the_sigmoid_of_its_rows_logit() -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((3, 8)).astype(np.float32)
    logits = np.array([[-20.0], [0.0], [3.5]], np.float32)
    gated = gate_rows(values, logits)
    for row, logit, found in zip(values, logits.ravel(), gated, strict=True):
        gate = oracle.sigmoid(float(logit))
        assert found.tolist() == [oracle.f32(v * gate) for v in row.tolist()]
    assert (gated[1] == values[1] / 2).all()
