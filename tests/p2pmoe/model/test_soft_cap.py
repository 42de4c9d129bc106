import math

import numpy as np

from p2pmoe.model.soft_cap import soft_cap, tanh
from tests.support import arithmetic_oracle as oracle


def test_every_step_is_one_rounding() -> None:
    values = np.linspace(-120, 120, 97, dtype=np.float32)
    found = soft_cap(values, 30.0).tolist()
    for value, capped in zip(values.tolist(), found, strict=True):
        z = oracle.f32(value / 30.0)
        minus = oracle.f32(-oracle.f32(2.0 * z))
        sigmoid = oracle.f32(1.0 / oracle.f32(1.0 + oracle.exp(minus)))
        y = oracle.f32(oracle.f32(2.0 * sigmoid) - 1.0)
        assert capped == oracle.f32(30.0 * y)


def test_near_the_true_tanh_and_never_beyond_the_cap() -> None:
    z = np.linspace(-12, 12, 2001, dtype=np.float32)
    assert np.abs(tanh(z) - np.vectorize(math.tanh)(z)).max() < 2e-7
    ends = soft_cap(np.array([-1e30, 0.0, 1e30], np.float32), 50.0)
    assert ends.tolist() == [-50.0, 0.0, 50.0]
