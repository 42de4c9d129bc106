"""The router: which experts a token goes to, and how their results are mixed.

Logits are f32, summed in eight lanes whatever format the file keeps the weights in, a
bias added last; who is chosen by them, and with what weight, is `choice`'s. A matrix of
a file is read by the first token that is routed.
"""

import threading
from collections.abc import Callable

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.matrix import Matrix
from p2pmoe.model.choice import (
    AmongChoice,
    AtHand,
    RouterSettings,
    choose_among,
    foreseen_ranks,
)
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.experts import Routing
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.model.tensors import take_rows

__all__ = ["Router"]


class Router:
    """One layer's router."""

    def __init__(
        self,
        weight: Floats | Matrix,
        bias: Floats | None,
        settings: RouterSettings,
        operations: RowOperations,
        logit_bias: Floats | None = None,
    ) -> None:
        """Take `weight` [n_expert, n_embd] and the selection bias [n_expert].

        Raises ModelRefused if one of them is not finite or `settings` do not fit; a
        `Matrix` is laid out, as numbers, when it is first computed with.
        """
        n_expert = weight.n_rows if isinstance(weight, Matrix) else len(weight)
        if not isinstance(weight, Matrix) and not np.isfinite(weight).all():
            raise ModelRefused("a router weight is not finite")
        if bias is not None and not np.isfinite(bias).all():
            raise ModelRefused("a router's selection bias is not finite")
        if logit_bias is not None and not np.isfinite(logit_bias).all():
            raise ModelRefused("a router's bias is not finite")
        settings.check(n_expert)
        self._weight: Floats | Matrix = weight  # until it is laid out
        self._product: Callable[[Floats], Floats] | None = None
        self._lock = threading.Lock()
        self._bias = bias
        self._logit_bias = logit_bias
        self._settings = settings
        self._operations = operations

    def route(self, hidden: Floats) -> Routing:
        """Route `hidden` f32 [n_tokens, n_embd]; ModelFileError at the first time."""
        experts, weights = self._operations.choose(
            self.logits(hidden), self._bias, self._settings
        )
        return Routing(experts=experts, weights=weights)

    def logits(self, hidden: Floats) -> Floats:
        """Return the logits of `hidden`, f32 [n_tokens, n_expert]; as `route`."""
        logits = (self._product or self._lay_out())(hidden)
        return logits if self._logit_bias is None else logits + self._logit_bias

    def route_among(
        self, logits: Floats, at_hand: AtHand, substitutes: float
    ) -> AmongChoice:
        """Route rows by their logits to experts at hand; see `choose_among`."""
        return choose_among(
            logits,
            self._bias,
            self._settings,
            at_hand,
            substitutes=substitutes,
            choose=self._operations.choose,
        )

    def foresee(self, logits: Floats) -> Floats:
        """Return by how much rows want each expert: selection scores, not to the bit.

        `logits` [n_tokens, n_expert]; so is what is returned, the largest for the best.
        """
        return foreseen_ranks(logits, self._bias, self._settings)

    def _lay_out(self) -> Callable[[Floats], Floats]:
        with self._lock:
            product = self._product
            if product is None:
                weight = self._weight
                if isinstance(weight, Matrix):
                    weight = take_rows(weight, list(range(weight.n_rows)))
                product = self._product = self._operations.lane_product(weight)
                self._weight = np.zeros((0, 0), np.float32)
            return product
