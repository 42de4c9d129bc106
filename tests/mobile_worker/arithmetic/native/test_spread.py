import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.native.spread import spread_expert
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from tests.support.kernels import all_kernels

X = fixed_rows("x", 2, 64)
ROWS = ExpertInput(coded=quantize_rows(X), floats=X)


def expert(down: Format, kind: ActivationKind, bias: float | None) -> ExpertWeights:
    def biases(n: int) -> np.ndarray | None:
        return None if bias is None else np.full(n, bias, np.float32)

    return ExpertWeights(
        gate=fixed_matrix("gate", Format.Q4_0, 96, 64),
        up=fixed_matrix("up", Format.F16, 96, 64),
        down=fixed_matrix("down", down, 64, 96),
        activation=Activation(kind=kind),
        gate_bias=biases(96),
        up_bias=biases(96),
        down_bias=biases(64),
    )


@pytest.mark.parametrize("kernel", all_kernels(), ids=lambda k: k.name)
@pytest.mark.parametrize("down", [Format.Q8_0, Format.F32])
@pytest.mark.parametrize("kind", list(ActivationKind))
@pytest.mark.parametrize("bias", [None, 0.375])
def test_products_alone_give_the_expert_s_bytes(kernel, down, kind, bias):
    weights = expert(down, kind, bias)
    expected = kernel.feed_forward(weights, ROWS)
    assert np.array_equal(spread_expert(kernel, weights, ROWS), expected)


@pytest.mark.parametrize("bias", [np.inf, np.nan])
def test_what_is_not_finite_is_refused(bias):
    weights = expert(Format.F32, ActivationKind.SWIGLU, bias)
    with pytest.raises(NonFinite):
        spread_expert(all_kernels()[0], weights, ROWS)
