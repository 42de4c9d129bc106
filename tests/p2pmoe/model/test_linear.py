import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from p2pmoe.model.linear import (
    FeedForward,
    GatedFeedForward,
    Linear,
)
from p2pmoe.model.mixing import gate_rows
from p2pmoe.model.row_operations import NUMPY_OPERATIONS

KERNEL = NumpyKernel()
X = fixed_rows("x", 3, 64)


def test_outputs_stand_side_by_side() -> None:
    a, b = fixed_matrix("a", Format.Q8_0, 4, 64), fixed_matrix("b", Format.F32, 5, 64)
    rows = ExpertInput(coded=quantize_rows(X), floats=X)
    expected = np.hstack([KERNEL.matmul(a, rows), KERNEL.matmul(b, rows)])
    assert np.array_equal(Linear(KERNEL, a, b)(X), expected)


def test_a_bias_is_added_last() -> None:
    a, b = fixed_matrix("a", Format.Q8_0, 4, 64), fixed_matrix("b", Format.F32, 5, 64)
    bias = fixed_rows("bias", 1, 9)[0]
    assert np.array_equal(
        Linear(KERNEL, a, b, bias=bias)(X), Linear(KERNEL, a, b)(X) + bias
    )


def test_a_gate_weighs_each_row() -> None:
    weights = ExpertWeights(
        gate=fixed_matrix("g", Format.Q4_0, 32, 64),
        up=fixed_matrix("u", Format.Q4_0, 32, 64),
        down=fixed_matrix("d", Format.Q4_0, 64, 32),
        activation=Activation(kind=ActivationKind.SWIGLU),
    )
    inner = FeedForward(KERNEL, weights)
    gate = NUMPY_OPERATIONS.lane_product(fixed_rows("gate", 1, 64))
    own = GatedFeedForward(gate, inner)
    assert own(X).tobytes() == gate_rows(inner(X), gate(X)).tobytes()
    assert own(X[1:2]).tobytes() == own(X)[1:2].tobytes()


def test_a_feed_forward_is_an_uncoded_expert() -> None:
    weights = ExpertWeights(
        gate=fixed_matrix("g", Format.Q4_0, 32, 64),
        up=fixed_matrix("u", Format.Q4_0, 32, 64),
        down=fixed_matrix("d", Format.Q4_0, 64, 32),
        activation=Activation(kind=ActivationKind.SWIGLU_OAI),
    )
    rows = ExpertInput(coded=quantize_rows(X))
    expected = KERNEL.expert(weights, rows, Profile.R32)
    assert FeedForward(KERNEL, weights)(X).tobytes() == expected


def test_input_that_is_not_finite_is_refused() -> None:
    x = X.copy()
    x[1, 1] = np.nan
    with pytest.raises(NonFinite):
        Linear(KERNEL, fixed_matrix("m", Format.Q8_0, 4, 64))(x)
