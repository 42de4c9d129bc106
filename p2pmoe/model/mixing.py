"""The weighted sum that mixes expert results, and the gate of a shared expert.

Specification 02, "Combine": acc = fl(acc + fl(weight * y)) over the slots ascending,
starting at 0.
"""

from typing import Final

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.elementary import sigmoid

__all__ = ["gate_rows", "weighted_sum"]

_ZERO: Final = np.float32(0.0)


def weighted_sum(values: Floats, weights: Floats) -> Floats:
    """Return f32 [n, n_embd].

    `values` [n, top_k, n_embd], `weights` [n, top_k]; n_embd above 1, for numpy sums
    a single column in an order of its own (see `lanes`).
    """
    terms = values * weights[:, :, None]
    total: Floats = np.add.reduce(terms, axis=1, initial=_ZERO)
    return total


def gate_rows(values: Floats, logits: Floats) -> Floats:
    """Return f32 `values` [n, n_embd] times their rows' gate, fl(y * sigmoid(logit)).

    `logits` [n, 1], a lane product with one row of weights: how Qwen2-MoE weighs its
    shared expert.
    """
    return values * sigmoid(logits)
