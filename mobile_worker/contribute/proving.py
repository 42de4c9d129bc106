"""Before a worker offers anything: is its arithmetic right, and how fast is it.

The self-test's digest must be the one of the specification; a machine whose arithmetic
differs by one bit is not started. The rate is measured on a fixed expert with one row,
as decoding does it, and is only a hint for placement: nothing is paid by it.
"""

import time
from typing import Final

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import (
    SELF_TEST_DIGEST,
    fixed_matrix,
    fixed_rows,
    self_test,
)
from mobile_worker.contribute.errors import ArithmeticDiffers

__all__ = ["measure_rate", "prove_arithmetic"]

_N_EMBD: Final = 256
_N_FF: Final = 128


def prove_arithmetic(kernel: Kernel) -> bytes:
    """Return the self-test's digest, 32 bytes.

    Raises:
        ArithmeticDiffers: it is not the specification's.
    """
    digest = self_test(kernel)
    if digest != SELF_TEST_DIGEST:
        raise ArithmeticDiffers(
            f"this machine's arithmetic differs: self-test {digest.hex()[:8]}, "
            f"expected {SELF_TEST_DIGEST.hex()[:8]}",
            advice="reinstall p2pmoe and numpy; do not serve from this machine",
        )
    return digest


def measure_rate(kernel: Kernel, *, within_s: float = 0.2) -> int:
    """Return multiply-adds a second of the kernel, measured for `within_s` seconds."""
    weights = ExpertWeights(
        gate=fixed_matrix("p2pmoe rate gate", Format.Q4_0, _N_FF, _N_EMBD),
        up=fixed_matrix("p2pmoe rate up", Format.Q4_0, _N_FF, _N_EMBD),
        down=fixed_matrix("p2pmoe rate down", Format.Q4_0, _N_EMBD, _N_FF),
        activation=Activation(kind=ActivationKind.SWIGLU),
    )
    floats = fixed_rows("p2pmoe rate rows", 1, _N_EMBD)
    rows = ExpertInput(coded=quantize_rows(floats), floats=floats)
    kernel.expert(weights, rows, Profile.R16)  # decode once, as a resident expert is
    n_calls, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < within_s or not n_calls:
        kernel.expert(weights, rows, Profile.R16)
        n_calls += 1
    return int(n_calls * 3 * _N_EMBD * _N_FF / max(elapsed, 1e-9))
