"""Selection biases that make a made-up model use experts unevenly, as real ones do.

Published traces of MoE models show use in a layer falling about as 1 / rank^s, s near
1, in an order of its own in each layer, while which of the rarer experts a token takes
depends on the token. A router's logits here have unit variance, so that a bias on their
sigmoids sets how often an expert is among the top k; which biases give the use that is
wanted is found by trying, on random logits. Deterministic.
"""

import numpy as np

__all__ = ["skewed_bias", "zipf_use"]

_SAMPLES = 4096
_STEPS = 120
_ALWAYS = 0.97  # no expert is taken by more tokens than that


def zipf_use(n_expert: int, top_k: int, s: float) -> np.ndarray:
    """Return f64 [n_expert]: by rank, the share of tokens that take an expert."""
    share = np.arange(1, n_expert + 1) ** -float(s)
    use = np.zeros(n_expert)
    free = np.ones(n_expert, bool)
    while True:
        left = top_k - use[~free].sum()
        use[free] = left * share[free] / share[free].sum()
        over = free & (use > _ALWAYS)
        if not over.any():
            return use
        use[over], free = _ALWAYS, free & ~over


def skewed_bias(
    n_expert: int, top_k: int, s: float, rng: np.random.Generator
) -> np.ndarray:
    """Return f32 [n_expert] of biases, the experts' ranks drawn by `rng`."""
    wanted = zipf_use(n_expert, top_k, s)
    logits = rng.standard_normal((_SAMPLES, n_expert))
    scores = 1 / (1 + np.exp(-logits))
    bias = np.zeros(n_expert)
    for step in range(_STEPS):
        order = np.argpartition(-(scores + bias), top_k - 1, axis=1)[:, :top_k]
        found = np.bincount(order.ravel(), minlength=n_expert) / _SAMPLES
        found = np.clip(found, 0.5 / _SAMPLES, 1 - 0.5 / _SAMPLES)
        bias += 0.15 * 0.98**step * (_logit(wanted) - _logit(found))
    return rng.permutation(bias - bias.mean()).astype(np.float32)


def _logit(share: np.ndarray) -> np.ndarray:
    return np.log(share / (1 - share))
