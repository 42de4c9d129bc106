"""What stands in for the disk of a backbone that has no experts: checks, and no more.

A worker's answer is checked now and then by computing it here, so the expert's weights
must come here: they are fetched into memory for that one time (and offered to the hot
set). A decode thread waits for it, so fetching is bounded: one at a time, and all
together a twentieth of the time at most. Time that was not used is saved, up to two
seconds, and as much is there at the start, when all workers are strangers. What may not
be fetched now is `NotHere`, and that check counts as skipped.
"""

import threading
import time
from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.disk_experts import DiskAnswer, DiskWork
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.fetched_experts import FetchedExperts
from p2pmoe.prometheus import render_metric
from p2pmoe.weights.errors import ModelFileError, NotHere

__all__ = ["FetchedTier"]

_SHARE = 0.05  # of the time
_MOST_SAVED_S = 2.0


class FetchedTier:
    """Experts fetched for checks; a `DiskExperts`."""

    n_bytes = 0  # nothing is kept here

    def __init__(
        self,
        experts: FetchedExperts,
        hot: HotSet,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read `experts`, which fetches, and offer them to `hot`."""
        self._experts = experts
        self._hot = hot
        self._monotonic = monotonic
        self._busy = threading.Lock()
        self._saved_s = _MOST_SAVED_S
        self._saved_at = monotonic()
        self.n_reads = 0
        self.n_read_bytes = 0
        self.n_hits = 0
        self.n_skipped = 0

    @property
    def lost(self) -> Collection[ExpertId]:
        """Nothing: what was never here cannot be lost."""
        return ()

    def load(self, expert: ExpertId) -> ExpertWeights:
        """Return an expert from memory or its servers; NotHere if it is too soon."""
        weights = self._hot.get(expert)
        if weights is not None:
            self.n_hits += 1
            return weights
        if not self._busy.acquire(blocking=False):
            raise self._skipped(expert)
        try:
            start = self._monotonic()
            saved_s = self._saved_s + _SHARE * (start - self._saved_at)
            self._saved_s, self._saved_at = min(saved_s, _MOST_SAVED_S), start
            if self._saved_s <= 0:
                raise self._skipped(expert)
            try:
                weights = self._experts.weights(expert)
            finally:
                self._saved_s -= self._monotonic() - start
            self.n_reads += 1
            self.n_read_bytes += self._hot.sizes[expert]
        finally:
            self._busy.release()
        self._hot.adopt(expert, weights)
        return weights

    def _skipped(self, expert: ExpertId) -> NotHere:
        self.n_skipped += 1
        reason = f"expert {expert} is not fetched for a check so soon"
        return NotHere(self._experts.path, reason)

    def begin(self, work: DiskWork) -> "_Pending":
        """Note what is to be computed; see `DiskExperts`."""
        return _Pending(self, work)

    def foresee(
        self, layer: int, hidden: Floats, experts: npt.NDArray[np.int64]
    ) -> None:
        """Read nothing ahead."""

    def samples(self) -> str:
        """Return what was fetched, for checks and to be kept."""
        count = self._experts.count
        return "".join(
            (
                render_metric("p2pmoe_expert_fetches_total", [({}, count.n_shards)]),
                render_metric("p2pmoe_expert_fetch_bytes_total", [({}, count.n_bytes)]),
                render_metric(
                    "p2pmoe_expert_fetches_failed_total", [({}, count.n_failed)]
                ),
                render_metric(
                    "p2pmoe_check_fetches_skipped_total", [({}, self.n_skipped)]
                ),
            )
        )

    def close(self) -> None:
        """There is nothing to close."""


class _Pending:
    """One layer's calls; a `PendingDisk`."""

    def __init__(self, tier: FetchedTier, work: DiskWork) -> None:
        self._tier = tier
        self._work = work

    def finish(self) -> DiskAnswer:
        work, jobs, lost = self._work, {}, []
        for call in work.calls:
            try:
                weights = self._tier.load(ExpertId(work.layer, call.expert))
                jobs[call.expert] = KernelCall(weights=weights, rows=call.rows)
            except ModelFileError:
                lost.append(call.expert)
        found = work.kernel.expert_values(list(jobs.values()), work.coded, work.profile)
        return DiskAnswer(
            values=dict(zip(jobs, found, strict=True)),
            read_bytes=dict.fromkeys(jobs, 0),
            lost=tuple(sorted(lost)),
        )

    def abandon(self) -> None:
        """There is nothing to give up."""
