"""Grouped-query attention over a KV cache, each row on its own.

Specification 02 and decision 17. For the row at position i and each of its heads, every
fl one rounding to f32:

    seen        p <= i, i - window < p with a window, and what the row's mask allows
    score[p]  = fl(dot * scale), dot in eight lanes over the head dimension
    capped    = fl(cap * tanh(fl(score[p] / cap))), with a soft cap (`soft_cap`)
    most      = the largest score of a position seen, and the head's sink
    weight[p] = exp(fl(score[p] - most)); exactly 0 where p is not seen
    total     = the weights in eight lanes, lane p % 8, folded;
                with a sink fl(total + exp(fl(sink - most)))
    result    = the sum over p ascending of fl(fl(weight[p] / total) * value[p])

A weight of exactly 0 changes no sum, so a row's result depends neither on how many rows
are computed together nor on where the sums begin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.elementary import exp
from mobile_worker.arithmetic.lanes import LANES, fold_lanes, sum_in_lanes
from p2pmoe.model.soft_cap import soft_cap

__all__ = [
    "AttentionRule",
    "AttentionRun",
    "Mask",
    "attend",
    "attend_runs",
    "dot_scores",
    "softmax",
]

_ZERO: Final = np.float32(0.0)
_MAX_TERMS: Final = 1 << 18  # products held at once; bounds memory, not results
_MIN_TILE: Final = 64
_LEAST, _MOST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)

Mask = npt.NDArray[np.bool_]

# Consecutive rows of one sequence: its keys and values as `attend` takes them, the
# first row's position, how many rows, and what they see.
AttentionRun = tuple[Floats, Floats, int, int, Mask | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionRule:
    """How scores become weights; the same for all rows of a layer.

    Raises ValueError for a window below 1, or a scale or cap that is no f32 above 0.
    """

    scale: float
    window: int | None = None  # positions that a row sees, itself included
    soft_cap: float | None = None
    sinks: Floats | None = None  # [n_kv_heads, group], one more logit without a value

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"a window of {self.window} positions")
        for factor in (self.scale, self.soft_cap):
            if factor is not None and not _LEAST <= factor <= _MOST:
                raise ValueError(f"{factor} is no factor of a score")

    def first_seen(self, position: int) -> int:
        """Return the first position that the window leaves to a row."""
        return 0 if self.window is None else max(0, position - self.window + 1)


def attend(
    queries: Floats,
    keys: Floats,
    values: Floats,
    first: int,
    rule: AttentionRule,
    seen: Mask | None,
) -> Floats:
    """Attend causally; returns f32 [n, n_kv_heads, group, value_dim].

    Args:
        queries: f32 [n, n_kv_heads, group, head_dim]; row i is position first + i.
        keys: f32 [n_kv_heads, head_dim, >= first + n].
        values: f32 [>= first + n, n_kv_heads, value_dim].
        first: The position of the first row.
        rule: Scale, window, soft cap and sinks.
        seen: Which positions each row may see beyond causality and window, bool
            [n, n_kv_heads, first + n]; None for all. Each row sees its own position.
    """
    n, n_kv, group, head_dim = queries.shape
    result = np.empty((n, n_kv, group, values.shape[2]), np.float32)
    width = n_kv * group * head_dim
    at_once = max(1, _MAX_TERMS // (width * max(_MIN_TILE, first + n)))
    for start in range(0, n, at_once):
        end = min(n, start + at_once)
        # Whole steps of eight are left out, so that a position keeps its lane.
        low = rule.first_seen(first + start) // LANES * LANES
        n_seen = first + end
        mask = _visible((first + start, n_seen), low, rule)
        if seen is not None:
            own = seen[start:end, :, low:n_seen]
            mask = own if mask is None else mask & own
        scores = dot_scores(queries[start:end], keys[:, :, low:n_seen])
        scores *= np.float32(rule.scale)
        if rule.soft_cap is not None:
            scores = soft_cap(scores, rule.soft_cap)
        weights = softmax(scores, mask, rule.sinks)
        result[start:end] = _weighted_sum(weights, values[low:n_seen])
    return result


def attend_runs(
    queries: Floats,
    new_keys: Floats,
    new_values: Floats,
    runs: Sequence[AttentionRun],
    rule: AttentionRule,
) -> Floats:
    """Keep the rows' keys and values, then attend, each run in its own cache.

    Args:
        queries: f32 [n, n_kv_heads, group, head_dim].
        new_keys: f32 [n, n_kv_heads, head_dim], of the same rows.
        new_values: f32 [n, n_kv_heads, value_dim].
        runs: They follow each other and have all n rows.
        rule: Scale, window, soft cap and sinks.
    """
    result = np.empty((*queries.shape[:3], new_values.shape[2]), np.float32)
    start = 0
    for keys, values, first, n, seen in runs:
        end = start + n
        keys[:, :, first : first + n] = new_keys[start:end].transpose(1, 2, 0)
        values[first : first + n] = new_values[start:end]
        own = queries[start:end]
        result[start:end] = attend(own, keys, values, first, rule, seen)
        start = end
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


def softmax(scores: Floats, mask: Mask | None, sinks: Floats | None = None) -> Floats:
    """Return weights over the last axis; positions where `mask` is False weigh 0.

    `scores` f32 [n, n_kv_heads, group, n_keys] is used up; `mask` bool
    [n, n_kv_heads or 1, n_keys]; `sinks` f32 [n_kv_heads, group].
    """
    if mask is not None:
        scores = np.where(mask[:, :, None, :], scores, np.float32(-np.inf))
    most = np.maximum.reduce(scores, axis=-1, keepdims=True)
    if sinks is not None:
        most = np.maximum(most, sinks[..., None])
    scores -= most
    weights = exp(scores)
    if mask is not None:
        weights *= mask[:, :, None, :]  # exp is never quite 0
    total = sum_in_lanes(weights)
    if sinks is not None:
        total += exp(sinks[..., None] - most)
    weights /= total
    return weights


def _visible(rows: tuple[int, int], low: int, rule: AttentionRule) -> Mask | None:
    """Return what positions rows[0]..rows[1] see of low..rows[1], None for all.

    bool [n_rows, 1, rows[1] - low].
    """
    begin, end = rows
    if end - begin == 1 and rule.first_seen(begin) == low:
        return None
    own, others = np.arange(begin, end)[:, None, None], np.arange(low, end)
    mask: Mask = others <= own
    if rule.window is not None:
        mask &= others > own - rule.window
    return mask


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
