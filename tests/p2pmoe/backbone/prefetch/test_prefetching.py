"""What layers see of prefetching: weights on the step are at hand for it alone."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.layer_at_hand import LayerAtHand
from p2pmoe.backbone.pass_record import PassRecord
from p2pmoe.backbone.prefetch.buffer import Ahead
from p2pmoe.backbone.prefetch.prefetching import Foreseen, Prefetching
from p2pmoe.backbone.scattered import ScatteredExperts
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.model.experts import Routing
from tests.support.backbone_model import POCKET, local_side

LAYER = 2


class _Noting:
    """Fetches nothing, and notes what was cold."""

    def __init__(self) -> None:
        self.cold: list[tuple[int, set[int]]] = []

    def fetch(
        self, foreseen: Sequence[Foreseen], step: StepTrace, deadline: float
    ) -> None:
        pass

    def needed(self, step: StepTrace, layer: int, cold: Collection[int]) -> None:
        self.cold.append((layer, set(cold)))


def test_fetched_weights_are_at_hand_for_their_step_alone() -> None:
    side = local_side(POCKET, hot_share=0.0)
    noting: Prefetching = _Noting()
    places = replace(side.places(), prefetch=noting)
    routing = Routing(
        experts=np.array([[1, 3], [3, 5]], np.int64),
        weights=np.full((2, 2), 0.5, np.float32),
    )
    rng = np.random.default_rng(1)
    hidden = rng.standard_normal((2, places.n_embd)).astype(np.float32)

    def step() -> StepTrace:
        record = PassRecord(keeps_layers=True)
        return StepTrace([(RequestTrace(), 2)], record=record)

    plain = step()
    pending = ScatteredExperts(places, plain, 1e9).begin(LAYER, hidden, routing)
    pending.compute()
    expected = pending.finish()
    for fetched in ({1, 3, 5}, {3}):
        own = step()
        own.ahead = Ahead({}, max_bytes=1 << 20)
        for index in fetched:
            expert = ExpertId(LAYER, index)
            assert own.ahead.put(expert, side.experts.weights(expert), 1)
        pending = ScatteredExperts(places, own, 1e9).begin(LAYER, hidden, routing)
        assert isinstance(pending, LayerAtHand) == (len(fetched) == 3)
        pending.compute()
        assert np.array_equal(pending.finish(), expected)
        (layer,) = own.told().layers
        assert layer.n_prefetched == len(fetched)
    assert noting.cold == [(LAYER, {1, 3, 5})] * 3
    side.close()
