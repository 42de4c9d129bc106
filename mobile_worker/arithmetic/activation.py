"""Gated activations of a feed-forward: swiglu and swiglu_oai.

Specification 02, "The expert". Element by element, each operation rounded once:

    SWIGLU       fl(silu(g) * u)
    SWIGLU_OAI   g' = min(g, limit), u' = clamp(u, -limit, limit),
                 fl(fl(u' + 1) * fl(g' * sigmoid(fl(alpha * g'))))
"""

from typing import Final

import numpy as np

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.elementary import sigmoid, silu

__all__ = ["Activation", "ActivationKind", "activate"]

_ONE: Final = np.float32(1.0)


def activate(activation: Activation, g: Floats, u: Floats) -> Floats:
    """Return the gated product of `g` and `u`, f32 of the same shape, all finite."""
    if activation.kind is ActivationKind.SWIGLU:
        y = silu(g)
        y *= u
        return y
    limit = np.float32(activation.limit)
    g = np.minimum(g, limit)
    u = np.minimum(u, limit)
    np.maximum(u, -limit, out=u)
    y = sigmoid(g * np.float32(activation.alpha))
    y *= g
    u += _ONE
    y *= u
    return y
