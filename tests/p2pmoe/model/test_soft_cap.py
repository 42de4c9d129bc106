import math

import numpy as np

from p2pmoe.model.soft_cap import soft_cap, tanh
from tests.support import arithmetic_oracle as oracle


def test_every_step_is_one_rounding() -> None:
    values = np.linspace(-120, 120, 97, dtype=np.float32)
    found = soft_cap(values, 30.0).tolist()
    assert found == [oracle.soft_cap(value, 30.0) for value in values.tolist()]


def test_near_the_true_tanh_and_never_beyond_the_cap() -> None:
    z = np.linspace(-12, 12, 2001, dtype=np.float32)
    assert np.abs(tanh(z) - np.vectorize(math.tanh)(z)).max() < 2e-7
    ends = soft_cap(np.array([-1e30, 0.0, 1e30], np.float32), 50.0)
    assert ends.tolist() == [-50.0, 0.0, 50.0]
