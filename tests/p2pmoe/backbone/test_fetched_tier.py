"""Checks without a disk: one fetch at a time, for a share of the time at most."""

import threading
from contextlib import suppress

import numpy as np
import pytest

from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.disk_experts import DiskCall, DiskWork
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.fetched_experts import FetchCount
from p2pmoe.backbone.fetched_tier import FetchedTier
from p2pmoe.weights.errors import NotHere
from p2pmoe.weights.expert_file import ExpertFile
from tests.support.backbone_model import POCKET, model_of

A, B = ExpertId(1, 0), ExpertId(1, 1)


class Fetched(ExpertFile):
    """Experts that take `seconds` to come, by a clock of their own."""

    def __init__(self) -> None:
        super().__init__(model_of(POCKET))
        self.path, self.count = POCKET, FetchCount()
        self.now, self.seconds, self.fetched = 100.0, 3.0, []
        self.while_busy = lambda: None

    def weights(self, expert: ExpertId):
        self.now += self.seconds
        self.fetched.append(expert)
        self.count.n_shards += 1
        self.while_busy()
        return super().weights(expert)


def tier_of(budget: int = 0) -> tuple[Fetched, FetchedTier]:
    experts = Fetched()
    sizes = {expert: experts.n_bytes(expert) for expert in (A, B)}
    hot = HotSet(sizes, budget, experts.weights)
    return experts, FetchedTier(experts, hot, monotonic=lambda: experts.now)


def test_fetching_takes_a_twentieth_of_the_time_at_most() -> None:
    experts, tier = tier_of()
    start = experts.now
    experts.seconds = 0.5
    for _ in range(4000):
        with suppress(NotHere):
            tier.load(A)
        experts.now += 0.1
    spent, elapsed = 0.5 * len(experts.fetched), experts.now - start
    assert 0.05 * elapsed <= spent <= 0.05 * elapsed + 2.5
    assert tier.n_reads + tier.n_skipped == 4000


def test_strangers_are_checked_at_once_and_rest_is_saved() -> None:
    experts, tier = tier_of()
    experts.seconds = 0.75
    for _ in range(3):
        tier.load(A)
    with pytest.raises(NotHere, match="so soon"):
        tier.load(B)
    experts.now += 10_000
    for _ in range(3):
        tier.load(A)
    with pytest.raises(NotHere, match="so soon"):
        tier.load(B)


def test_one_is_fetched_at_a_time() -> None:
    experts, tier = tier_of()
    said: list[str] = []

    def other() -> None:
        try:
            tier.load(B)
        except NotHere as error:
            said.append(str(error))

    def meanwhile() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    experts.while_busy = meanwhile
    tier.load(A)
    assert len(said) == 1


def test_what_was_fetched_stays_where_there_is_room() -> None:
    experts, tier = tier_of(budget=1 << 20)
    first = tier.load(A)
    assert tier.load(A) is first
    assert (tier.n_reads, tier.n_hits) == (1, 1)
    assert experts.fetched == [A]


def test_a_fetch_that_failed_counts_like_any_other() -> None:
    experts, tier = tier_of()

    def fail() -> None:
        raise NotHere(POCKET, "gone")

    experts.while_busy = fail
    with pytest.raises(NotHere, match="gone"):
        tier.load(A)
    with pytest.raises(NotHere, match="so soon"):
        tier.load(A)
    assert list(tier.lost) == []


def test_a_layers_calls_are_computed_or_lost() -> None:
    _, tier = tier_of()
    kernel = NumpyKernel()
    hidden = np.ones((1, 256), np.float32)
    work = DiskWork(
        layer=1,
        calls=[DiskCall(expert=0), DiskCall(expert=1)],
        coded=ExpertInput(coded=kernel.code_rows(hidden), floats=None),
        profile=Profile.R16,
        kernel=kernel,
    )
    pending = tier.begin(work)
    answer = pending.finish()
    assert list(answer.values) == [0]
    assert answer.lost == (1,)
    pending.abandon()
    tier.foresee(1, hidden, np.zeros((1, 4), np.int64))
    tier.close()


def test_what_it_did_is_on_the_metrics_page() -> None:
    _, tier = tier_of()
    tier.load(A)
    with pytest.raises(NotHere):
        tier.load(B)
    lines = tier.samples().splitlines()
    assert "p2pmoe_expert_fetches_total 1" in lines
    assert "p2pmoe_check_fetches_skipped_total 1" in lines
