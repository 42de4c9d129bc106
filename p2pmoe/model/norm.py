"""RMS norm, row by row.

Specification 02, "The backbone's own operations": the sum of squares in eight lanes,
`inv = fl(1 / fl(sqrt(fl(fl(ss / n) + eps))))`, then `fl(fl(x * inv) * w)`.
"""

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.lanes import sum_in_lanes

__all__ = ["rms_norm"]


def rms_norm(x: Floats, weight: Floats, eps: np.float32) -> Floats:
    """Return the normed rows of `x` f32 [..., n]; `weight` broadcasts to its shape."""
    scale = sum_in_lanes(x * x)
    scale /= np.float32(x.shape[-1])
    scale += eps
    np.sqrt(scale, out=scale)
    np.divide(np.float32(1.0), scale, out=scale)
    y = x * scale
    y *= weight
    return y
