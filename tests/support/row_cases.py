"""Random cases of the row operations, made from a seed, the same for any operations.

A case is a function of the operations and a generator; it draws shapes and values, and
returns the results' bytes. Values are of very different sizes between cases, and some
are zero, minus zero, subnormal, or equal to each other.
"""

import numpy as np

from p2pmoe.model.attention import AttentionRule
from p2pmoe.model.choice import RouterSettings, ScoreFunction

__all__ = ["CASES", "attention_case", "values"]

HEAD_DIMS = (8, 64, 80, 96, 128, 192)


def values(rng, *shape):
    x = rng.standard_normal(shape).astype(np.float32)
    x *= np.float32(rng.choice([1e-30, 1e-3, 1.0, 1.0, 1.0, 30.0]))
    special = rng.random(shape)
    x[special < 0.02] = 0.0
    x[special > 0.98] = -0.0
    x[(special > 0.5) & (special < 0.51)] = 1e-42
    return x


def attention_case(rng):
    """Return the arguments of `attend`; every row sees its own position."""
    n, n_kv, group = (int(rng.integers(1, high)) for high in (5, 4, 9))
    head_dim = int(rng.choice(HEAD_DIMS))
    value_dim = int(rng.choice([head_dim, head_dim, 24]))
    first = int(rng.integers(0, rng.choice([8, 140, 597])))
    capacity = first + n + int(rng.integers(0, 20))
    seen = None
    if rng.random() < 0.5:
        seen = rng.random((n, n_kv, first + n)) < rng.choice([0.01, 0.5, 0.9])
        seen[np.arange(n), :, first + np.arange(n)] = True
    return (
        values(rng, n, n_kv, group, head_dim),
        values(rng, n_kv, head_dim, capacity),
        values(rng, capacity, n_kv, value_dim),
        first,
        AttentionRule(scale=1.0 / head_dim**0.5),
        seen,
    )


def attend(own, rng):
    return own.attend(*attention_case(rng)).tobytes()


def dot_scores(own, rng):
    queries, keys, *_ = attention_case(rng)
    n_keys = int(rng.integers(0, keys.shape[2] + 1))
    return own.dot_scores(queries, keys, n_keys).tobytes()


def rms_norm(own, rng):
    n, n_heads, width = int(rng.integers(1, 4)), 3, int(rng.integers(1, 300))
    weight = values(rng, width) if rng.random() < 0.5 else values(rng, n_heads, width)
    eps = np.float32(rng.choice([1e-6, 1e-5]))
    return own.rms_norm(values(rng, n, n_heads, width), weight, eps).tobytes()


def turn(own, rng):
    n, n_heads, half = (int(rng.integers(1, high)) for high in (5, 4, 50))
    heads = values(rng, n, n_heads, 2 * half + int(rng.integers(0, 5)))
    angles = rng.random((n, half)) * 6.3
    cosines, sines = np.cos(angles), np.sin(angles)
    own.turn(heads, cosines.astype(np.float32), sines.astype(np.float32), False)
    return heads.tobytes()


def lane_product(own, rng):
    n, n_rows = int(rng.integers(0, 5)), int(rng.integers(1, 40))
    n_cols = 8 * int(rng.integers(1, 60))
    product = own.lane_product(values(rng, n_rows, n_cols))
    return product(values(rng, n, n_cols)).tobytes()


def choose(own, rng):
    n, n_expert = int(rng.integers(1, 5)), int(rng.integers(1, 70))
    rule = RouterSettings(
        score_function=ScoreFunction(int(rng.integers(1, 3))),
        top_k=int(rng.integers(1, n_expert + 1)),
        norm=bool(rng.integers(2)),
        scale=float(rng.choice([1.0, 2.5])),
    )
    logits = values(rng, n, n_expert)
    if rng.random() < 0.5:
        logits = np.round(logits)  # equal scores
    bias = values(rng, n_expert) if rng.random() < 0.5 else None
    experts, weights = own.choose(logits, bias, rule)
    return experts.astype(np.int64).tobytes() + weights.tobytes()


def weighted_sum(own, rng):
    n, top_k = int(rng.integers(1, 5)), int(rng.integers(1, 10))
    width = int(rng.integers(2, 200))
    return own.weighted_sum(
        values(rng, n, top_k, width), values(rng, n, top_k)
    ).tobytes()


CASES = (attend, dot_scores, rms_norm, turn, lane_product, choose, weighted_sum)
