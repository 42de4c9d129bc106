"""The local side of a backbone without experts: the base is here, and what was fetched.

It differs from a `LocalSide` in what it may read: no routed expert is on the disk. So
use is not measured at the start but by requests, no expert is at hand at first, and
what --ram leaves beside the base is filled with the most used experts as use is
measured, fetched one by one for a part of the time. A fetch that fails is told and
tried again later; nothing is lost by it, since a worker holds each expert.
"""

import functools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.fetch_rule import fetch_rule
from p2pmoe.backbone.fetched_experts import ExpertFetcher, FetchedExperts
from p2pmoe.backbone.fetched_tier import FetchedTier
from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.backbone.path_times import Path
from p2pmoe.config import DiskAccess
from p2pmoe.weights.model_file import ModelFile

__all__ = ["BaseSide"]

_FILL_S = 7.5  # of the 30 s between two looks: the link is for other things, too
_CHECK_SILENCE_S = 2.0  # what a decode thread may wait for a check
_CHECK_BYTES_S = 1 << 20


class BaseSide(LocalSide):
    """A loaded model whose experts are on other machines."""

    def __init__(
        self, model_file: ModelFile, options: LocalOptions, fetcher: ExpertFetcher
    ) -> None:
        """Check and divide as `LocalSide` does; without --ram no expert is kept."""
        # Nothing maps a file that has no experts.
        super().__init__(model_file, replace(options, disk_access=DiskAccess.READ))
        self.disk.close()
        took = functools.partial(self.cost.times.add, Path.FETCH)
        self.count = fetcher.count
        self.experts = FetchedExperts(model_file, fetcher, took)
        # What a check fetched takes no other's place: perhaps nobody else holds that.
        self.hot = HotSet(self.hot.sizes, self.plan.hot or 0, self.experts.weights)
        quick = fetcher.hasty(
            silence_s=_CHECK_SILENCE_S, slowest_bytes_s=_CHECK_BYTES_S
        )
        self.disk = FetchedTier(FetchedExperts(model_file, quick), self.hot)

    def warm_up(
        self,
        tokens: Sequence[int],
        *,
        in_network: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Recall recorded use, and have the base in memory; ModelFileError."""
        self._recall_use()
        self._in_network = in_network
        self.read_base()

    def look_through(self, go_on: Callable[[], bool] = lambda: True) -> bool:
        """Do nothing: the base was checked as it was read, experts are not here."""
        return go_on()

    @property
    def knows_use(self) -> bool:
        """Whether use was measured: room for all is no reason to fetch all."""
        return self._has_measured_use

    def fill(self, go_on: Callable[[], bool] = lambda: True) -> None:
        """Fetch experts into free room for a while, the most used first.

        None of them is said to be at hand before it is here. ModelFileError.
        """
        until = time.monotonic() + _FILL_S
        self.hot.warm(
            self._worth(),
            lambda: go_on() and time.monotonic() < until,
            self._pays,
        )

    def _pays(self, uses: float) -> bool:
        """Whether use saves more time than the fetch takes, as far as measured."""
        return fetch_rule(self.cost.times, self.remote_times).pays(uses)

    def fill_behind(self, go_on: Callable[[], bool]) -> None:
        """Fill while requests run; what cannot be fetched now is logged."""
        super().fill_behind(go_on)
        self._unreadable = False

    def rebalance(self, keep: Collection[ExpertId] = ()) -> bool:
        """Fill what room is left, else follow use by a few fetches; True if any."""
        before = self.count.n_shards
        largest = max(self.hot.sizes.values(), default=0)
        if self.hot.n_bytes + largest <= self.hot.budget_bytes:
            self.fill_behind(lambda: True)
        else:
            super().rebalance(keep)
            self._unreadable = False
        return self.count.n_shards > before

    def damage(self) -> str:
        """Return nothing: all of the base is in memory."""
        return ""
