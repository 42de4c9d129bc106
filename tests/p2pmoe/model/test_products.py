"""Each kernel's own products against the reference, by the kernel's interface."""

from collections.abc import Sequence

import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from p2pmoe.model.products import (
    KernelProducts,
    code_input,
    kinds_of,
    products_for,
)
from tests.support.kernels import all_kernels, kernel_name

KERNEL = NumpyKernel()
REFERENCE = KernelProducts(KERNEL)
X = fixed_rows("x", 3, 64)
KERNELS = pytest.mark.parametrize("kernel", all_kernels(), ids=kernel_name)


def expert(seed: int, formats: Sequence[Format], *, biased: bool = False):
    gate, up, down = formats
    return ExpertWeights(
        gate=fixed_matrix(f"g{seed}", gate, 32, 64),
        up=fixed_matrix(f"u{seed}", up, 32, 64),
        down=fixed_matrix(f"d{seed}", down, 64, 32),
        activation=Activation(kind=ActivationKind.SWIGLU_OAI),
        gate_bias=fixed_rows("gb", 1, 32)[0] if biased else None,
        down_bias=fixed_rows("db", 1, 64)[0] if biased else None,
    )


def test_input_comes_in_the_kinds_that_are_read() -> None:
    integer, floats = (fixed_matrix("m", f, 4, 64) for f in (Format.Q8_0, Format.F16))
    only = code_input(KERNEL, X, kinds_of([integer]))
    assert only.coded is not None
    assert only.floats is None
    assert code_input(KERNEL, X, kinds_of([floats])).coded is None
    both = code_input(KERNEL, X, kinds_of([integer, floats]))
    assert both.coded is not None
    assert both.floats is X


@KERNELS
@pytest.mark.parametrize("biased", [False, True])
def test_matrices_of_any_formats_side_by_side(kernel: Kernel, biased: bool) -> None:
    matrices = [
        fixed_matrix("a", Format.Q4_0, 20, 64),
        fixed_matrix("b", Format.F32, 5, 64),
        fixed_matrix("c", Format.Q8_0, 33, 64),
    ]
    bias = fixed_rows("bias", 1, 58)[0] if biased else None
    own = products_for(kernel).linear(matrices, bias)
    expected = REFERENCE.linear(matrices, bias)(X)
    for _ in range(2):
        assert own(X).tobytes() == expected.tobytes()
    assert own(X[::2]).tobytes() == expected[::2].tobytes()
    assert own(X[:0]).shape == (0, 58)


MIXTURES = (
    (Format.Q4_0, Format.Q4_0, Format.Q4_0),
    (Format.F16, Format.Q8_0, Format.F32),
    (Format.F32, Format.F32, Format.Q8_0),
)


@KERNELS
@pytest.mark.parametrize("formats", MIXTURES, ids=str)
def test_whole_experts(kernel: Kernel, formats: Sequence[Format]) -> None:
    weights = expert(1, formats, biased=True)
    own = products_for(kernel).feed_forward(weights)
    expected = REFERENCE.feed_forward(weights)(X)
    assert own(X).tobytes() == expected.tobytes()
    assert own(X[1:2]).tobytes() == expected[1:2].tobytes()


@KERNELS
@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("formats", MIXTURES, ids=str)
def test_routed_experts(kernel: Kernel, profile: Profile, formats) -> None:
    weights = {index: expert(index, formats) for index in (0, 3, 7, 9)}
    chosen = np.array([[0, 7], [3, 7], [0, 3]])
    own = products_for(kernel)
    values = own.routed(weights, chosen, X, profile)
    assert values.shape == (3, 2, 64)
    expected = REFERENCE.routed(weights, chosen, X, profile)
    assert values.tobytes() == expected.tobytes()
    for row in range(3):
        alone = own.routed(weights, chosen[row : row + 1], X[row : row + 1], profile)
        assert alone.tobytes() == values[row].tobytes()
    assert own.routed(weights, chosen[:0], X[:0], profile).shape == (0, 2, 64)
    with pytest.raises(KeyError):
        own.routed(weights, np.array([[0, 1]]), X[:1], profile)


@KERNELS
def test_input_that_is_not_finite_is_refused(kernel: Kernel) -> None:
    own, x = products_for(kernel), X.copy()
    x[1, 1] = np.inf
    weights = expert(0, MIXTURES[0])
    with pytest.raises(NonFinite):
        own.linear([fixed_matrix("m", Format.Q8_0, 4, 64)], None)(x)
    with pytest.raises(NonFinite):
        own.feed_forward(weights)(x)
    with pytest.raises(NonFinite):
        own.routed({0: weights}, np.zeros((3, 1), np.int64), x, Profile.R16)


@KERNELS
def test_results_that_are_not_finite_are_refused(kernel: Kernel) -> None:
    own, x = products_for(kernel), np.full((1, 64), 1e38, np.float32)
    weights = expert(0, (Format.F32, Format.F32, Format.F32))
    with pytest.raises(NonFinite):
        own.feed_forward(weights)(x)
    with pytest.raises(NonFinite):
        own.routed({0: weights}, np.zeros((1, 1), np.int64), x, Profile.R32)
