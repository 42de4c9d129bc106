"""The self-test gate, and the kernel that a worker gets."""

from pathlib import Path

import pytest

from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test import SELF_TEST_DIGEST
from mobile_worker.contribute.errors import ArithmeticDiffers
from mobile_worker.contribute.proving import prove_arithmetic, prove_kernel
from mobile_worker.contribute.settings import ContributeSettings
from relay.endpoint import parse_endpoint
from tests.support.flawed_kernel import LyingKernel, OneBitKernel


def settings(kernel: str) -> ContributeSettings:
    return ContributeSettings(
        data=Path("/nowhere"),
        endpoint=parse_endpoint("wss://relay.example/relay"),
        token=b"",
        network=None,
        memory_bytes=8 << 20,
        disk_bytes=1,
        domain="here",
        kernel=kernel,
    )


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


def test_a_worker_gets_the_kernel_asked_for_within_its_memory() -> None:
    proven = prove_kernel(settings("numpy"))
    assert proven.kernel.name == "numpy"
    assert proven.kernel.decoded_bytes == 2 << 20
    assert proven.self_test == SELF_TEST_DIGEST
    assert proven.rate_macs_s > 0


def test_a_worker_without_the_kernel_asked_for_does_not_start() -> None:
    with pytest.raises(KernelUnavailable, match="abacus"):
        prove_kernel(settings("abacus"))
