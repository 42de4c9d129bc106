import math

import numpy as np

from p2pmoe.model.norm import rms_norm
from tests.support import arithmetic_oracle as oracle


def plain(row: list[float], weight: list[float], eps: float) -> list[float]:
    ss = oracle.lane_sum([oracle.f32(v * v) for v in row])
    mean = oracle.f32(oracle.f32(ss / len(row)) + eps)
    inverse = oracle.f32(1.0 / oracle.f32(math.sqrt(mean)))
    return [
        oracle.f32(oracle.f32(v * inverse) * w)
        for v, w in zip(row, weight, strict=True)
    ]


def test_equal_to_the_plain_loop_alone_and_in_a_batch() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((5, 64)).astype(np.float32)
    weight = rng.standard_normal(64).astype(np.float32)
    eps = np.float32(1e-6)
    together = rms_norm(x, weight, eps)
    for i, row in enumerate(x):
        assert together[i].tolist() == plain(row.tolist(), weight.tolist(), float(eps))
        assert np.array_equal(rms_norm(x[i : i + 1], weight, eps)[0], together[i])


def test_zeros_stay_zeros() -> None:
    y = rms_norm(np.zeros((1, 32), "f4"), np.ones(32, "f4"), np.float32(1e-6))
    assert not y.any()
