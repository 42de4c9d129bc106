"""When each expert will be needed next, as far as the past tells: what a cache keeps.

A layer comes by once in a step. That it then needs an expert has a chance, which is
taken from two running means of earlier steps: a slow one over tokens (half-life 64:
what this text uses) and a fast one over steps (half-life a half: what the last token
used is likely used again). From it follows the expected distance, in layers, from
where the steps are now to the expert's next use; what is foreseen for this step's
coming layers (see foresight.py) is as near as its layer.

    chance    = (slow + FAST_SHARE * fast) / (1 + FAST_SHARE)
    distance  = layers to the expert's own + n_layer * (1 / chance - 1)

Docs: explanation/tiers.md compares this with LRU, LFU and others; ADR 22 says why.
Pure but for its own counts; `add` is called under its owner's lock, and a reader may
see counts a layer late.
"""

import functools

import numpy as np
import numpy.typing as npt

from mobile_worker.expert_id import ExpertId

__all__ = ["NextUse"]

HALF_LIFE_TOKENS = 64
HALF_LIFE_STEPS = 0.5
FAST_SHARE = 0.2
_LEAST_CHANCE = 1e-4

_SLOW_KEEPS = 2.0 ** (-1.0 / HALF_LIFE_TOKENS)
_FAST_KEEPS = 2.0 ** (-1.0 / HALF_LIFE_STEPS)

Table = npt.NDArray[np.float64]  # [n_layer, n_expert]


@functools.lru_cache(maxsize=64)
def _slow_weights(n: int, top_k: int) -> npt.NDArray[np.float64]:
    """Return what the experts of n tokens add to the slow mean, [n * top_k]."""
    weights = (1.0 - _SLOW_KEEPS) * _SLOW_KEEPS ** np.arange(n - 1, -1, -1)
    return np.repeat(weights, top_k)


class NextUse:
    """Chances and distances of all experts, [n_layer, n_expert]."""

    def __init__(self, n_layer: int, n_expert: int) -> None:
        """Begin with no use at all, before the first layer."""
        self._slow: Table = np.zeros((n_layer, n_expert))
        self._fast: Table = np.zeros((n_layer, n_expert))
        self._foreseen = np.zeros((n_layer, n_expert), np.bool_)
        self._layers = np.arange(n_layer)[:, None]
        self._at = -1

    def add(self, layer: int, experts: npt.NDArray[np.int64]) -> None:
        """Take in the routing of one layer of a step: `experts` [n_tokens, top_k]."""
        n = len(experts)
        if not n:
            return
        slow, fast = self._slow[layer], self._fast[layer]
        slow *= _SLOW_KEEPS**n
        fast *= _FAST_KEEPS
        if n == 1:  # whose experts are different ones
            slow[experts[0]] += 1.0 - _SLOW_KEEPS
            fast[experts[0]] += 1.0 - _FAST_KEEPS
        else:
            flat, size = experts.ravel(), len(slow)
            slow += np.bincount(flat, _slow_weights(n, experts.shape[1]), size)
            fast += np.bincount(flat, minlength=size) * ((1.0 - _FAST_KEEPS) / n)
        self._foreseen[layer] = False
        self._at = layer

    def foresee(self, layer: int, experts: npt.NDArray[np.int64]) -> None:
        """Note what a layer, which has yet to come in this step, is likely to need."""
        self._foreseen[layer, experts.ravel()] = True

    def restore(self, counts: Table) -> None:
        """Begin from the counts of an earlier run, [n_layer, n_expert]."""
        most = counts.max(axis=1, keepdims=True)
        self._slow = np.divide(counts, most, out=np.zeros_like(counts), where=most > 0)
        self._slow *= 0.5  # likelier than what nobody knows, less than what is measured

    def distances(self) -> Table:
        """Return the expected layers until each expert's next use, at least 1."""
        n_layer = len(self._layers)
        to_layer = (self._layers - self._at - 1) % n_layer + 1
        chance = (self._slow + FAST_SHARE * self._fast) / (1.0 + FAST_SHARE)
        chance = np.clip(chance, _LEAST_CHANCE, 1.0)
        chance = np.where(self._foreseen, 1.0, chance)
        distances: Table = to_layer + n_layer * (1.0 / chance - 1.0)
        return distances

    def chance(self, expert: ExpertId) -> float:
        """Return the chance, 0 to 1, that a step's one token needs an expert."""
        at = expert.layer, expert.index
        mixed = self._slow[at] + FAST_SHARE * self._fast[at]
        return float(min(1.0, mixed / (1.0 + FAST_SHARE)))

    def mean_chance(self, layer: int) -> float:
        """Return the mean of that chance over the experts of a layer."""
        return float(self._chances(layer).mean())

    def ranked(self, layer: int) -> list[int]:
        """Return the experts of a layer, the likeliest first, ties by index."""
        ordered: list[int] = np.argsort(-self._chances(layer), kind="stable").tolist()
        return ordered

    def _chances(self, layer: int) -> Table:
        """Return the chances of a layer's experts, [n_expert]."""
        mixed: Table = self._slow[layer] + FAST_SHARE * self._fast[layer]
        return mixed / (1.0 + FAST_SHARE)
