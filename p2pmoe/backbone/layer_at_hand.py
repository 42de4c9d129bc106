"""A layer whose experts are all in memory: computed at one go, nothing planned.

The common case of a backbone that has room for the whole model, and of hot layers of
any other. What is computed and counted is what a plan with nothing but RAM calls would
compute and count (pending_layer.py), to the bit.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.matrix import ExpertWeights
from p2pmoe.backbone.places import ExpertPlaces
from p2pmoe.backbone.row_hashes import keep_output_hashes
from p2pmoe.backbone.speculation.stand_in import StandIns
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.errors import NotFinite
from p2pmoe.model.experts import ExpertsHere, Routing
from p2pmoe.model.products import Products
from p2pmoe.model.row_operations import RowOperations

__all__ = ["LayerAtHand"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerAtHand(ExpertsHere):
    """One layer under way; its experts are computed by `finish`."""

    places: ExpertPlaces
    step: StepTrace
    operations: RowOperations
    products: Products
    layer: int
    hidden: Floats
    routing: Routing
    weights: Mapping[int, ExpertWeights]  # of the experts that are asked for
    stand_ins: StandIns | None = None  # taught what experts add that were fetched

    def finish(self) -> Floats:
        """Return the mixed sum f32 [n_tokens, n_embd]; NotFinite."""
        chosen, places = self.routing.experts, self.places
        start = time.perf_counter()
        try:
            values = self.products.routed(
                self.weights, chosen, self.hidden, places.profile
            )
        except NonFinite as error:
            raise self._not_finite(error) from error
        places.cost.observe_compute(time.perf_counter() - start, chosen.size)
        self.step.computed_here(chosen)
        if self.step.is_traced:
            self._keep_hashes(values)
        if self.stand_ins is not None:  # some may be here for this pass alone
            resident = places.hot.layer(self.layer)
            self.stand_ins.teach_values(
                self.layer, self.hidden, self.routing, values, resident
            )
        return self.operations.weighted_sum(values, self.routing.weights)

    def _keep_hashes(self, values: Floats) -> None:
        chosen, outputs = self.routing.experts, {}
        for expert in np.unique(chosen).tolist():
            rows, slots = np.nonzero(chosen == expert)
            outputs[expert] = (rows, values[rows, slots])
        keep_output_hashes(self.step, self.layer, outputs)

    def _not_finite(self, error: NonFinite) -> NotFinite:
        """Return the error that names the rows and experts whose results are not."""
        rows, experts = set(), set()
        for row, expert in np.argwhere(self.routing.experts >= 0):
            chosen = self.routing.experts[row : row + 1, expert : expert + 1]
            own = self.hidden[row : row + 1]
            try:
                self.products.routed(self.weights, chosen, own, self.places.profile)
            except NonFinite:
                rows.add(int(row))
                experts.add(int(chosen[0, 0]))
        named = ", ".join(str(expert) for expert in sorted(experts))
        return NotFinite(
            f"layer {self.layer}, expert {named or '?'}: {error}", rows=rows
        )
