"""Random numbers that are a function of where they are used.

`gumbel(seed, position, tokens)` hashes (seed, position, token id) with a counter-based
integer hash (rounds of the splitmix64 finaliser: Steele, Lea, Flood, "Fast splittable
pseudorandom number generators", 2014). Nothing is drawn in order, so a position's noise
is the same whether the tokens before it were drafted, verified or decoded one by one.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["gumbel", "hash_u64"]

U64 = npt.NDArray[np.uint64]

_MASK: Final = (1 << 64) - 1
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def hash_u64(seed: int, position: int, tokens: npt.NDArray[np.int64]) -> U64:
    """Return one u64 for each token id; `seed` and `position` are taken mod 2^64."""
    state = np.full(1, seed & _MASK, np.uint64)  # one for all: what differs comes last
    state = _mix(state + _GOLDEN)
    state = _mix((state ^ np.uint64(position & _MASK)) + _GOLDEN)
    return _mix((tokens.astype(np.uint64) ^ state) + _GOLDEN)


def gumbel(
    seed: int, position: int, tokens: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return standard Gumbel noise, f64, for each token id at this position."""
    top = hash_u64(seed, position, tokens) >> np.uint64(11)
    uniform = (top.astype(np.float64) + 0.5) * 2.0**-53  # strictly within (0, 1)
    return -np.log(-np.log(uniform))


def _mix(x: U64) -> U64:
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))
