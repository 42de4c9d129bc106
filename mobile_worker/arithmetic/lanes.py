"""Sums of floats in eight lanes, the one order in which floats are added up here.

Specification 02: `lane[k % 8] = fl(lane[k % 8] + v_k)` for k ascending, then
`((l0+l1)+(l2+l3))+((l4+l5)+(l6+l7))`. numpy's own sums take another, unspecified
order, so every sum here runs over an outer axis of an array whose inner axis is
contiguous and longer than one: there numpy adds whole rows, one after the other.
tests/mobile_worker/arithmetic/test_lanes.py holds that against a plain loop.
"""

from typing import Final

import numpy as np

from mobile_worker.arithmetic.coding import Floats

__all__ = ["LANES", "fold_lanes", "lane_matmul", "lane_weights", "sum_in_lanes"]

LANES: Final = 8
_ZERO: Final = np.float32(0.0)
_MAX_TERMS: Final = 1 << 18  # products held at once; bounds memory, not results


def fold_lanes(lanes: Floats) -> Floats:
    """Add eight lanes pairwise: [..., 8, m] -> [..., m]."""
    pairs = lanes[..., 0::2, :] + lanes[..., 1::2, :]
    quads = pairs[..., 0::2, :] + pairs[..., 1::2, :]
    total: Floats = quads[..., 0, :] + quads[..., 1, :]
    return total


def sum_in_lanes(values: Floats) -> Floats:
    """Sum over the last axis in eight lanes: [..., m] -> [..., 1].

    An m that is no multiple of 8 counts as if zeros followed.
    """
    *outer, m = values.shape
    if m % LANES:
        padded = np.zeros((*outer, m + -m % LANES), np.float32)
        padded[..., :m] = values
        values = padded
    steps = values.reshape(*outer, -1, LANES)
    lanes: Floats = np.add.reduce(steps, axis=-2, initial=_ZERO)
    lanes = lanes[..., 0::2] + lanes[..., 1::2]
    lanes = lanes[..., 0::2] + lanes[..., 1::2]
    total: Floats = lanes[..., 0:1] + lanes[..., 1:2]
    return total


def lane_weights(values: Floats) -> Floats:
    """Lay out f32 [n_rows, n_cols] for `lane_matmul`: [n_cols / 8, 8, n_rows]."""
    n_rows, n_cols = values.shape
    return np.ascontiguousarray(values.T).reshape(n_cols // LANES, LANES, n_rows)


def lane_matmul(weights: Floats, x: Floats) -> Floats:
    """Return x times the weights, each dot product in eight lanes: f32 [n, n_rows].

    `weights` [n_steps, 8, n_rows] from `lane_weights`, `x` f32 [n, n_steps * 8].
    """
    n_steps, _, n_rows = weights.shape
    steps = x.reshape(len(x), n_steps, LANES, 1)
    result = np.empty((len(x), n_rows), np.float32)
    n_at_once = max(1, _MAX_TERMS // (LANES * n_rows))
    for i, row in enumerate(steps):
        lanes: Floats = np.zeros((LANES, n_rows), np.float32)
        for first in range(0, n_steps, n_at_once):
            chunk = weights[first : first + n_at_once]
            terms = np.empty((len(chunk) + 1, LANES, n_rows), np.float32)
            terms[0] = lanes
            np.multiply(chunk, row[first : first + n_at_once], out=terms[1:])
            lanes = np.add.reduce(terms, axis=0)
        result[i] = fold_lanes(lanes)
    return result
