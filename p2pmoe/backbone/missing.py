"""Experts that are nowhere: how much of a token they are, and who cannot do without.

Under `MissingPolicy.DROP` the rows of such experts are left out of the mixed sum; the
weights of the others stay as they are (docs/explanation says what was measured). A
token may lose at most a bound's share of its routed weight in a layer. Pure.
"""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from p2pmoe.model.experts import Routing

__all__ = ["missing_share", "rows_over"]


def missing_share(
    routing: Routing, experts: Collection[int]
) -> npt.NDArray[np.float64]:
    """Return the share of each token's routed weight that goes to some experts.

    f64 [n_tokens], 0 to 1; 0 for a token whose weights are all 0.
    """
    weights = np.abs(routing.weights.astype(np.float64))
    is_missing = np.isin(routing.experts, list(experts))
    total = weights.sum(axis=1)
    lost = np.where(is_missing, weights, 0.0).sum(axis=1)
    share = np.zeros(len(total), np.float64)
    np.divide(lost, total, out=share, where=total > 0)
    return share


def rows_over(routing: Routing, experts: Collection[int], bound: float) -> list[int]:
    """Return the tokens that would lose more than the bound without some experts."""
    is_over = ~(missing_share(routing, experts) <= bound)
    return [int(row) for row in np.nonzero(is_over)[0]]
