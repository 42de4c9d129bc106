"""Every kernel of this machine gives the bytes of the reference, whatever the work.

A few hundred random cases each time, ten thousand with the slow tests; the golden bytes
that all must give are in tests/vectors. Also: a row alone is the row in any batch.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from mobile_worker.arithmetic.activation import activate
from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel, KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile, decode_result
from tests.support.kernel_cases import (
    ExpertCase,
    ProductCase,
    code_row_cases,
    expert_cases,
    product_cases,
)
from tests.support.kernels import all_kernels, other_kernels

REFERENCE = NumpyKernel(decoded_cache_bytes=0)
few = settings(max_examples=200, deadline=None)
many = settings(
    max_examples=10_000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)


def check_product(case: ProductCase) -> None:
    expected = REFERENCE.matmul(case.matrix, case.rows)
    for kernel in other_kernels():
        assert_same(kernel, kernel.matmul(case.matrix, case.rows), expected)
    one_by_one(case, expected)


def one_by_one(case: ProductCase, expected: np.ndarray) -> None:
    for row in range(min(case.rows.n_rows, 3)):
        alone = case.rows.take(np.array([row]))
        for kernel in all_kernels():
            result = kernel.matmul(case.matrix, alone)
            assert_same(kernel, result, expected[row : row + 1])


def assert_same(kernel: Kernel, result: np.ndarray, expected: np.ndarray) -> None:
    """Compare bit for bit; what is no finite number must be none in both."""
    assert (result.shape, result.dtype) == (expected.shape, np.float32), kernel.name
    finite = np.isfinite(expected)
    assert np.array_equal(np.isfinite(result), finite), kernel.name
    same = result.view(np.uint32) == expected.view(np.uint32)
    assert same[finite].all(), kernel.name


def results_of(kernel: Kernel, case: ExpertCase) -> list[list[bytes]] | None:
    """Return a whole and a partial call's results in each profile; None for NonFinite.

    What `expert`, `experts`, `expert_values` and `feed_forward` say must agree.
    """
    calls = [
        KernelCall(weights=case.weights),
        KernelCall(weights=case.weights, rows=case.some),
    ]
    n_embd = case.weights.gate.n_cols
    try:
        results = [kernel.experts(calls, case.rows, profile) for profile in Profile]
    except NonFinite:
        for entry in (kernel.expert, kernel.feed_forward):
            extra = (Profile.R16,) if entry == kernel.expert else ()
            with pytest.raises(NonFinite):
                entry(case.weights, case.rows, *extra)
        return None
    plain = kernel.feed_forward(case.weights, case.rows)
    assert plain.astype("<f4").tobytes() == results[Profile.R32][0]
    for profile in Profile:
        assert kernel.expert(case.weights, case.rows, profile) == results[profile][0]
        values = kernel.expert_values(calls, case.rows, profile)
        for own, coded in zip(values, results[profile], strict=True):
            expected = decode_result(coded, profile, len(own), n_embd)
            assert np.array_equal(own, expected)
    return results


def check_expert(case: ExpertCase) -> None:
    expected = results_of(REFERENCE, case)
    for kernel in other_kernels():
        assert results_of(kernel, case) == expected, kernel.name
    if expected is None or not case.rows.n_rows:
        return
    last = case.rows.take(np.array([case.rows.n_rows - 1]))
    size = len(expected[Profile.R16][0]) // case.rows.n_rows
    for kernel in all_kernels():
        alone = kernel.expert(case.weights, last, Profile.R16)
        assert alone == expected[Profile.R16][0][-size:], kernel.name


def check_code_rows(x: np.ndarray) -> None:
    if not np.isfinite(x).all():
        for kernel in all_kernels():
            with pytest.raises(NonFinite):
                kernel.code_rows(x)
        return
    expected = REFERENCE.code_rows(x)
    for kernel in other_kernels():
        coded = kernel.code_rows(x)
        assert np.array_equal(coded.codes, expected.codes), kernel.name
        assert coded.codes.dtype == np.int8
        assert_same(kernel, coded.scales, expected.scales)


@few
@given(product_cases())
def test_products(case: ProductCase) -> None:
    check_product(case)


@few
@given(expert_cases())
def test_experts(case: ExpertCase) -> None:
    check_expert(case)


@few
@given(code_row_cases())
def test_coding(x: np.ndarray) -> None:
    check_code_rows(x)


@pytest.mark.slow
@many
@given(product_cases())
def test_ten_thousand_products(case: ProductCase) -> None:
    check_product(case)


@pytest.mark.slow
@many
@given(expert_cases())
def test_ten_thousand_experts(case: ExpertCase) -> None:
    check_expert(case)


@pytest.mark.slow
@many
@given(code_row_cases())
def test_ten_thousand_codings(x: np.ndarray) -> None:
    check_code_rows(x)


@pytest.mark.parametrize("kernel", all_kernels(), ids=lambda k: k.name)
def test_no_rows_no_results(kernel: Kernel) -> None:
    assert kernel.code_rows(np.zeros((0, 64), np.float32)).codes.shape == (0, 64)
    assert kernel.experts([], ExpertInput(), Profile.R16) == []


def rows_through_a_plain_expert(kind: ActivationKind, g: np.ndarray) -> ExpertCase:
    """Return work whose R32 results are act(g, 1) of 31 values of g in each row."""
    ones = np.eye(32, dtype="<f4")
    up = np.zeros((32, 32), "<f4")
    up[:, 31] = 1.0
    gate, up, down = (
        Matrix(format=Format.F32, n_rows=32, n_cols=32, raw=memoryview(each.tobytes()))
        for each in (ones, up, ones)
    )
    x = np.ones((len(g) // 31, 32), np.float32)
    x[:, :31] = g[: len(x) * 31].reshape(-1, 31)
    weights = ExpertWeights(
        gate=gate, up=up, down=down, activation=Activation(kind=kind)
    )
    return ExpertCase(weights, ExpertInput(floats=x), np.zeros(0, np.int64))


@pytest.mark.parametrize("kind", list(ActivationKind))
@pytest.mark.parametrize("kernel", all_kernels(), ids=lambda k: k.name)
def test_activations_over_their_whole_range(
    kernel: Kernel, kind: ActivationKind
) -> None:
    """Every 65,521st float of [-128, 128]; the elementary functions of each kernel."""
    bits = np.arange(0, 0x4300_0000, 65_521, dtype=np.uint32)
    g = np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)
    case = rows_through_a_plain_expert(kind, g)
    results = kernel.feed_forward(case.weights, case.rows)[:, :31]
    values = case.rows.floats[:, :31]
    expected = activate(case.weights.activation, values, np.ones_like(values))
    assert np.array_equal(results, expected)
