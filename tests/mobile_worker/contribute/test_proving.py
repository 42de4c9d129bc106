"""The self-test gate and the measured rate."""

import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test import SELF_TEST_DIGEST
from mobile_worker.contribute.errors import ArithmeticDiffers
from mobile_worker.contribute.proving import measure_rate, prove_arithmetic
from tests.support.flawed_kernel import LyingKernel, OneBitKernel


def test_right_arithmetic_passes() -> None:
    kernel = NumpyKernel(decoded_cache_bytes=1 << 20)
    assert prove_arithmetic(kernel) == SELF_TEST_DIGEST


def test_b34_one_bit_is_too_many() -> None:
    with pytest.raises(ArithmeticDiffers, match="differs") as caught:
        prove_arithmetic(OneBitKernel(decoded_cache_bytes=0))
    assert "\n" not in str(caught.value)
    assert caught.value.advice


def test_b34_a_liar_passes_the_self_test_and_is_caught_by_checks_later() -> None:
    assert prove_arithmetic(LyingKernel()) == SELF_TEST_DIGEST


def test_the_rate_is_positive_and_measured_briefly() -> None:
    assert measure_rate(NumpyKernel(), within_s=0.005) > 1_000_000
