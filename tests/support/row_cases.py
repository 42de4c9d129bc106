"""Random cases of the row operations, made from a seed, the same for any operations.

A case is a function of the operations and a generator; it draws shapes and values, and
returns the results' bytes. Values are of very different sizes between cases, and some
are zero, minus zero, subnormal, or equal to each other.
"""

import numpy as np

from p2pmoe.model.attention import AttentionRule
from p2pmoe.model.choice import RouterSettings, ScoreFunction

__all__ = ["CASES", "attention_case", "choice_case", "values"]

HEAD_DIMS = (8, 64, 80, 96, 128, 192, 576)


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
    value_dim = int(rng.choice([head_dim, head_dim, 24, 512]))
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
        attention_rule(rng, n_kv, group, head_dim),
        seen,
    )


def attention_rule(rng, n_kv, group, head_dim):
    """Return a rule, each part of which is there or not."""
    window = int(rng.choice([1, 2, 7, 8, 64, 128, 129, 300]))
    has_window, has_cap, has_sinks = rng.random(3) < 0.4
    return AttentionRule(
        scale=1.0 / head_dim**0.5,
        window=window if has_window else None,
        soft_cap=float(rng.choice([0.5, 30.0, 50.0])) if has_cap else None,
        sinks=values(rng, n_kv, group) if has_sinks else None,
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
    cosines, sines = cosines.astype(np.float32), sines.astype(np.float32)
    own.turn(heads, cosines, sines, bool(rng.integers(2)))
    return heads.tobytes()


def lane_product(own, rng):
    n, n_rows = int(rng.integers(0, 5)), int(rng.integers(1, 40))
    n_cols = 8 * int(rng.integers(1, 60))
    product = own.lane_product(values(rng, n_rows, n_cols))
    return product(values(rng, n, n_cols)).tobytes()


def choice_case(rng):
    """Return the arguments of `choose`."""
    n, n_groups = int(rng.integers(1, 5)), int(rng.choice([1, 1, 2, 4, 8]))
    in_group = int(rng.integers(1, 70 // n_groups))
    n_used, n_expert = int(rng.integers(1, n_groups + 1)), n_groups * in_group
    rule = RouterSettings(
        score_function=ScoreFunction(int(rng.integers(1, 4))),
        top_k=int(rng.integers(1, n_used * in_group + 1)),
        norm=bool(rng.integers(2)),
        scale=float(rng.choice([1.0, 2.5])),
        n_groups=n_groups,
        n_groups_used=n_used,
    )
    logits = values(rng, n, n_expert)
    if rng.random() < 0.5:
        logits = np.round(logits)  # equal scores
    bias = values(rng, n_expert) if rng.random() < 0.5 else None
    return logits, bias, rule


def choose(own, rng):
    experts, weights = own.choose(*choice_case(rng))
    return experts.astype(np.int64).tobytes() + weights.tobytes()


def weighted_sum(own, rng):
    n, top_k = int(rng.integers(1, 5)), int(rng.integers(1, 10))
    width = int(rng.integers(2, 200))
    return own.weighted_sum(
        values(rng, n, top_k, width), values(rng, n, top_k)
    ).tobytes()


CASES = (attend, dot_scores, rms_norm, turn, lane_product, choose, weighted_sum)
