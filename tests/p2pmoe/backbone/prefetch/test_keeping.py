"""Remote experts that repeat are fetched and kept when that pays, one at a time."""

import numpy as np

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.prefetch.keeping import Keeping
from p2pmoe.backbone.use import UseCounts
from tests.support.prefetch_rig import SIZES
from tests.support.small_model import N_EXPERT, N_LAYER

SIZE = next(iter(SIZES.values()))


def keeping(n_room: int, least_uses: float = 2.0) -> tuple[Keeping, UseCounts, HotSet]:
    use = UseCounts(N_LAYER, N_EXPERT, N_LAYER - 1)
    hot = HotSet(SIZES, n_room * SIZE, lambda expert: None, next_use=use.next_use)
    return Keeping(hot, use, lambda uses: uses >= least_uses), use, hot


def used(use: UseCounts, layer: int, index: int, n: int) -> None:
    for _ in range(n):
        use.add(layer, np.array([[index]], np.int64))


def test_the_most_used_that_pays_is_picked() -> None:
    keep, use, _ = keeping(2)
    used(use, 1, 0, 3)
    used(use, 2, 1, 6)
    used(use, 1, 2, 1)
    keep.missed(1, [0, 2])
    keep.missed(2, [1, 99])
    assert keep.pick(10.0) == ExpertId(2, 1)
    keep.missed(1, [0])
    assert keep.pick(11.0) is None, "one at a time"
    keep.ended(12.0)
    assert keep.pick(29.0) is None, "a tenth of the time at most"
    assert keep.pick(30.1) == ExpertId(1, 0)


def test_what_does_not_pay_or_has_no_place_is_not_fetched() -> None:
    keep, use, _ = keeping(0)
    used(use, 1, 0, 9)
    keep.missed(1, [0])
    assert keep.pick(0.0) is None
    keep, use, hot = keeping(1)
    used(use, 1, 0, 1)
    keep.missed(1, [0])
    assert keep.pick(0.0) is None, "used once: not worth it"
    used(use, 1, 0, 9)
    hot.adopt(ExpertId(1, 0), None)
    keep.missed(1, [0])
    assert keep.pick(1.0) is None, "it is here already"
    keep.ended(1.0)
    assert keep.pick(2.0) is None
