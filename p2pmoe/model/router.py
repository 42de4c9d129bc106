"""The router: which experts a token goes to, and how their results are mixed.

Logits are f32, summed in eight lanes whatever format the file keeps the weights in, a
bias added last; who is chosen by them, and with what weight, is `choice`'s.
"""

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.choice import RouterSettings
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.experts import Routing
from p2pmoe.model.row_operations import RowOperations

__all__ = ["Router"]


class Router:
    """One layer's router."""

    def __init__(
        self,
        weight: Floats,
        bias: Floats | None,
        settings: RouterSettings,
        operations: RowOperations,
        logit_bias: Floats | None = None,
    ) -> None:
        """Take `weight` f32 [n_expert, n_embd] and the selection bias [n_expert].

        Raises ModelRefused if one of them is not finite or `settings` do not fit.
        """
        if not np.isfinite(weight).all():
            raise ModelRefused("a router weight is not finite")
        if bias is not None and not np.isfinite(bias).all():
            raise ModelRefused("a router's selection bias is not finite")
        if logit_bias is not None and not np.isfinite(logit_bias).all():
            raise ModelRefused("a router's bias is not finite")
        settings.check(len(weight))
        self._logits = operations.lane_product(weight)
        self._bias = bias
        self._logit_bias = logit_bias
        self._settings = settings
        self._operations = operations

    def route(self, hidden: Floats) -> Routing:
        """Route `hidden` f32 [n_tokens, n_embd]."""
        logits = self._logits(hidden)
        if self._logit_bias is not None:
            logits = logits + self._logit_bias
        experts, weights = self._operations.choose(logits, self._bias, self._settings)
        return Routing(experts=experts, weights=weights)
