"""Elementary functions as the specification defines them: exp, sigmoid, silu.

Specification 02, "Elementary functions". Every operation is one IEEE binary32
rounding, in the order written there; numpy's element-wise functions never fuse two.
Arguments are f32 arrays of any shape; results are new arrays. Values must be numbers:
the callers look for non-finite values first (exp of NaN is unspecified here).
"""

from typing import Final

import numpy as np

from mobile_worker.arithmetic.coding import Floats

__all__ = ["exp", "sigmoid", "silu"]

_LOWEST: Final = np.float32(-87.0)
_HIGHEST: Final = np.float32(88.0)
_LOG2_E: Final = np.float32(1.44269504)
_LN2_HIGH: Final = np.float32(0.693359375)
_LN2_LOW: Final = np.float32(-2.12194440e-4)
_FIRST: Final = np.float32(1.9875691500e-4)
_COEFFICIENTS: Final = tuple(
    np.float32(c)
    for c in (
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    )
)
_ONE: Final = np.float32(1.0)
_EXPONENT_BIAS: Final = np.int32(127)
_MANTISSA_BITS: Final = np.int32(23)


def exp(z: Floats) -> Floats:
    """Return e^z for z clamped to [-87, 88]; at most 0.99 ulp from the exact value."""
    z = np.maximum(z, _LOWEST)
    np.minimum(z, _HIGHEST, out=z)
    n = z * _LOG2_E
    np.rint(n, out=n)
    z -= n * _LN2_HIGH
    z -= n * _LN2_LOW  # z is now the specification's r
    p = z * _FIRST
    p += _COEFFICIENTS[0]
    for coefficient in _COEFFICIENTS[1:]:
        p *= z
        p += coefficient
    p *= z * z
    p += z
    p += _ONE
    power = n.astype(np.int32)
    power += _EXPONENT_BIAS
    power <<= _MANTISSA_BITS
    p *= power.view(np.float32)
    return p


def sigmoid(z: Floats) -> Floats:
    """Return fl(1 / fl(1 + exp(-z)))."""
    y = exp(-z)
    y += _ONE
    return np.divide(_ONE, y, out=y)


def silu(g: Floats) -> Floats:
    """Return fl(g * sigmoid(g))."""
    y = sigmoid(g)
    y *= g
    return y
