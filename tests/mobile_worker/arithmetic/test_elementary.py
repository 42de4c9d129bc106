import math
from collections.abc import Iterator

import numpy as np
import pytest
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


def sweep(stride: int) -> Iterator[np.ndarray]:
    """Yield every `stride`-th float of [-87, 88], some million at a time."""
    for sign, last in ((0, 88.0), (1 << 31, 87.0)):
        end = int(np.float32(last).view(np.uint32))
        for first in range(0, end + 1, stride << 20):
            bits = np.arange(first, min(end + 1, first + (stride << 20)), stride)
            yield (bits.astype(np.uint32) | np.uint32(sign)).view(np.float32)
    halves = np.arange(-126, 128) + 0.5  # where the power of two changes
    edges = (halves * math.log(2)).astype(np.float32)
    around = edges.view(np.int32)[:, None] + np.arange(-64, 65, dtype=np.int32)
    near = around.ravel().view(np.float32)
    yield near[(near >= -87) & (near <= 88)]


def ulps_off(values: np.ndarray, exact: np.ndarray) -> float:
    """Return the greatest error in units of the last place of the exact value."""
    unit = np.spacing(exact.astype(np.float32)).astype(np.float64)
    return float((np.abs(values - exact) / unit).max())


def assert_below_one_ulp(stride: int) -> None:
    worst = [ulps_off(exp(z), np.exp(z.astype(np.float64))) for z in sweep(stride)]
    assert 0.5 < max(worst) < 1.0


def test_within_one_ulp_of_the_exact_value() -> None:
    assert_below_one_ulp(2039)  # 1.1 million of 2.2 thousand million floats


@pytest.mark.slow
def test_within_one_ulp_of_the_exact_value_everywhere() -> None:
    """Every 31st float."""
    assert_below_one_ulp(31)


def test_sigmoid_and_silu_are_put_together_as_specified() -> None:
    one = np.float32(1.0)
    for z in sweep(20_011):
        quotient = one / (one + exp(-z))
        assert sigmoid(z).tobytes() == quotient.tobytes()
        assert silu(z).tobytes() == (z * quotient).tobytes()
        exact = 1.0 / (1.0 + np.exp(-z.astype(np.float64)))
        assert ulps_off(sigmoid(z), exact) < 3.0


def test_clamped_at_both_ends() -> None:
    z = np.array([-1e30, 1e30], np.float32)
    assert exp(z).tolist() == [oracle.exp(-87.0), oracle.exp(88.0)]
    assert math.isfinite(exp(z)[1])


def test_the_argument_is_left_alone() -> None:
    z = np.array([1.0, -2.0], np.float32)
    exp(z)
    silu(z)
    assert z.tolist() == [1.0, -2.0]
