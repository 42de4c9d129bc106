import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel, KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows

KERNELS = [NumpyKernel()]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_rows_of_a_call_default_to_all(kernel: Kernel) -> None:
    weights = ExpertWeights(
        gate=fixed_matrix("gate", Format.Q4_0, 32, 64),
        up=fixed_matrix("up", Format.Q4_0, 32, 64),
        down=fixed_matrix("down", Format.Q4_0, 64, 32),
        activation=Activation(kind=ActivationKind.SWIGLU),
    )
    x = fixed_rows("x", 3, 64)
    rows = ExpertInput(coded=quantize_rows(x))
    calls = [
        KernelCall(weights=weights),
        KernelCall(weights=weights, rows=np.arange(3)),
    ]
    first, second = kernel.experts(calls, rows, Profile.R16)
    assert first == second == kernel.expert(weights, rows, Profile.R16)
