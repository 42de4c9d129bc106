"""The soft cap of scores and logits: cap * tanh(value / cap).

Decision 17: fl(cap * tanh(fl(value / cap))), with tanh made of the specification's
sigmoid, tanh(z) = fl(fl(2 * sigmoid(fl(2 * z))) - 1): off by less than 2e-7, exact at
the ends.
"""

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.elementary import sigmoid

__all__ = ["soft_cap", "tanh"]


def soft_cap(values: Floats, cap: float) -> Floats:
    """Return f32 `values` of any shape, each drawn into (-cap, cap); cap above 0."""
    limit = np.float32(cap)
    capped = tanh(values / limit)
    capped *= limit
    return capped


def tanh(z: Floats) -> Floats:
    """Return fl(fl(2 * sigmoid(fl(2 * z))) - 1) of f32 `z`."""
    y = sigmoid(z + z)
    y += y
    y -= np.float32(1.0)
    return y
