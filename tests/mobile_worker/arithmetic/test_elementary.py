import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.arithmetic.elementary import exp, sigmoid, silu
from tests.support import arithmetic_oracle as oracle
from tests.support.golden import golden, to_floats


def test_golden_bytes() -> None:
    vectors = golden("elementary.json")
    z = to_floats(vectors["z"])
    for name, function in (("exp", exp), ("sigmoid", sigmoid), ("silu", silu)):
        assert function(z).tobytes().hex() == vectors[name], name


@given(st.lists(st.floats(-200, 200, width=32), min_size=1, max_size=40))
def test_equal_to_the_plain_loop(values: list[float]) -> None:
    z = np.array(values, np.float32)
    assert exp(z).tolist() == [oracle.exp(v) for v in values]
    assert sigmoid(z).tolist() == [oracle.sigmoid(v) for v in values]


def test_within_one_ulp_of_the_exact_value() -> None:
    z = np.linspace(-87, 88, 20_001, dtype=np.float32)
    exact = np.exp(z.astype(np.float64))
    ulp = np.spacing(exact.astype(np.float32)).astype(np.float64)
    assert (np.abs(exp(z) - exact) / ulp).max() < 1.0


def test_clamped_at_both_ends() -> None:
    z = np.array([-1e30, 1e30], np.float32)
    assert exp(z).tolist() == [oracle.exp(-87.0), oracle.exp(88.0)]
    assert math.isfinite(exp(z)[1])


def test_the_argument_is_left_alone() -> None:
    z = np.array([1.0, -2.0], np.float32)
    exp(z)
    silu(z)
    assert z.tolist() == [1.0, -2.0]
