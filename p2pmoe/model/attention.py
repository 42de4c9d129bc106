"""Grouped-query attention over a KV cache, each row on its own.

Specification 02: scores in eight lanes over the head dimension, times the scale;
softmax with the maximum subtracted, our exp, the sum in eight lanes over positions,
one division per value; the weighted sum of V over positions ascending. A position that
a row may not see has weight exactly 0, which changes no sum, so a row's result does
not depend on how many rows are computed together.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.elementary import exp
from mobile_worker.arithmetic.lanes import LANES, fold_lanes, sum_in_lanes

__all__ = ["Mask", "attend", "dot_scores", "softmax"]

_ZERO: Final = np.float32(0.0)
_MAX_TERMS: Final = 1 << 18  # products held at once; bounds memory, not results
_MIN_TILE: Final = 64

Mask = npt.NDArray[np.bool_]


def attend(
    queries: Floats, keys: Floats, values: Floats, first: int, seen: Mask | None
) -> Floats:
    """Attend causally; returns f32 [n, n_kv_heads, group, value_dim].

    Args:
        queries: f32 [n, n_kv_heads, group, head_dim]; row i is position first + i.
        keys: f32 [n_kv_heads, head_dim, >= first + n].
        values: f32 [>= first + n, n_kv_heads, value_dim].
        first: The position of the first row.
        seen: Which positions each row may see beyond causality, bool
            [n, n_kv_heads, first + n]; None for all.
    """
    n, n_kv, group, head_dim = queries.shape
    result = np.empty((n, n_kv, group, values.shape[2]), np.float32)
    width = n_kv * group * head_dim
    at_once = max(1, _MAX_TERMS // (width * max(_MIN_TILE, first + n)))
    for start in range(0, n, at_once):
        end = min(n, start + at_once)
        n_seen = first + end
        mask = _visible(start, end, first, seen)
        scores = dot_scores(queries[start:end], keys[:, :, :n_seen])
        scores *= np.float32(1.0 / head_dim**0.5)
        weights = softmax(scores, mask)
        result[start:end] = _weighted_sum(weights, values[:n_seen])
    return result


def dot_scores(queries: Floats, keys: Floats) -> Floats:
    """Return all dot products in eight lanes, f32 [n, n_kv_heads, group, n_keys].

    `queries` f32 [n, n_kv_heads, group, head_dim], `keys` f32 [n_kv_heads, head_dim,
    n_keys].
    """
    n, n_kv, group, head_dim = queries.shape
    n_keys = keys.shape[2]
    steps = head_dim // LANES
    stepped_queries = queries.reshape(n, n_kv, group, steps, LANES, 1)
    scores = np.empty((n, n_kv, group, n_keys), np.float32)
    tile = max(_MIN_TILE, _MAX_TERMS // queries.size)
    for start in range(0, n_keys, tile):
        part = keys[:, :, start : start + tile]
        part = part.reshape(n_kv, 1, steps, LANES, part.shape[2])
        lanes = np.add.reduce(stepped_queries * part, axis=3, initial=_ZERO)
        scores[..., start : start + tile] = fold_lanes(lanes)
    return scores


def softmax(scores: Floats, mask: Mask | None) -> Floats:
    """Return weights over the last axis; positions where `mask` is False weigh 0.

    `scores` f32 [n, n_kv_heads, group, n_keys] is used up; `mask` bool
    [n, n_kv_heads or 1, n_keys].
    """
    if mask is not None:
        scores = np.where(mask[:, :, None, :], scores, np.float32(-np.inf))
    scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
    weights = exp(scores)
    if mask is not None:
        weights *= mask[:, :, None, :]  # exp is never quite 0
    weights /= sum_in_lanes(weights)
    return weights


def _visible(start: int, end: int, first: int, seen: Mask | None) -> Mask | None:
    """Return what rows start..end see, bool [end - start, 1 or n_kv, first + end]."""
    n_seen = first + end
    if end - start == 1:
        return None if seen is None else seen[start:end, :, :n_seen]
    rows = np.arange(first + start, n_seen)
    causal: Mask = np.arange(n_seen)[None, None, :] <= rows[:, None, None]
    return causal if seen is None else causal & seen[start:end, :, :n_seen]


def _weighted_sum(weights: Floats, values: Floats) -> Floats:
    """Sum values over positions ascending, f32 [n, n_kv_heads, group, value_dim]."""
    n, n_kv, group, n_keys = weights.shape
    upright = weights.transpose(3, 0, 1, 2)[..., None]
    shape = (n, n_kv, group, values.shape[2])
    total: Floats = np.zeros(shape, np.float32)
    tile = max(1, _MAX_TERMS // total.size)
    for start in range(0, n_keys, tile):
        part = values[start : start + tile, None, :, None, :]
        terms = np.empty((len(part) + 1, *shape), np.float32)
        terms[0] = total
        np.multiply(upright[start : start + tile], part, out=terms[1:])
        total = np.add.reduce(terms, axis=0)
    return total
