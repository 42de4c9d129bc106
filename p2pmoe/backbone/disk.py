"""Routed experts on the local disk: positioned reads into a bounded cache.

Never mapped: a file cut short is an error naming it, for that read alone (fault B03).
The cache holds shards in the file's own bytes, least recently used first out; it is
shared by all lanes. What belongs to the hot set goes there instead. Matrices are the
same objects for as long as they are cached, so that a kernel may keep what it decoded
of them.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.disk_experts import DiskAnswer, DiskCall, DiskWork
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.expert_file import ExpertFile

__all__ = ["DiskTier"]

log = logging.getLogger("p2pmoe.backbone")

_READERS = 4  # reads at a time: as many as a solid-state disk wants in its queue


class DiskTier:
    """A bounded cache over an `ExpertFile`; thread-safe."""

    def __init__(
        self,
        expert_file: ExpertFile,
        *,
        max_bytes: int,
        cost: LocalCost,
        adopt: Callable[[ExpertId, ExpertWeights], bool] = lambda _, __: False,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Keep at most `max_bytes` of shards (one is always kept while it is used).

        `adopt` is offered what was read and says if it keeps it; then it is not here.
        """
        self._file = expert_file
        self._max_bytes = max_bytes
        self._cost = cost
        self._adopt = adopt
        self._monotonic = monotonic
        self._kept: OrderedDict[ExpertId, tuple[ExpertWeights, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="disk")
        self.n_bytes = 0  # in the cache now
        self.n_reads = 0
        self.n_read_bytes = 0
        self.n_hits = 0
        self.lost: set[ExpertId] = set()  # each is logged once

    def load(self, expert: ExpertId) -> ExpertWeights:
        """Return an expert, from the cache or the disk; ModelFileError."""
        with self._lock:
            kept = self._kept.get(expert)
            if kept is not None:
                self._kept.move_to_end(expert)
                self.n_hits += 1
                return kept[0]
        start = self._monotonic()
        try:
            weights = self._file.weights(expert)
        except ModelFileError as error:
            self._note_lost(expert, error)
            raise
        n_bytes = self._file.n_bytes(expert)
        with self._lock:
            self._cost.observe_read(self._monotonic() - start, n_bytes)
            self.n_reads += 1
            self.n_read_bytes += n_bytes
            known = self._kept.get(expert)
            if known is not None:
                return known[0]
            if not self._adopt(expert, weights) and n_bytes <= self._max_bytes:
                self._keep(expert, weights, n_bytes)
        return weights

    def begin(self, work: DiskWork) -> "PendingReads":
        """Start reading what one layer needs; see `DiskExperts`."""
        reads: dict[Future[ExpertWeights], DiskCall] = {}
        hits: list[tuple[DiskCall, ExpertWeights]] = []
        with self._lock:
            for call in work.calls:
                kept = self._kept.get(ExpertId(work.layer, call.expert))
                if kept is not None:
                    hits.append((call, kept[0]))
            self.n_hits += len(hits)
        found = {call.expert for call, _ in hits}
        for call in work.calls:
            if call.expert not in found:
                expert = ExpertId(work.layer, call.expert)
                reads[self._readers.submit(self.load, expert)] = call
        return PendingReads(
            work, hits, reads, lambda e: self._file.n_bytes(ExpertId(work.layer, e))
        )

    def _note_lost(self, expert: ExpertId, error: ModelFileError) -> None:
        with self._lock:
            is_news = expert not in self.lost
            self.lost.add(expert)
        if is_news:
            log.error("shard lost: %s", error)

    def _keep(self, expert: ExpertId, weights: ExpertWeights, n_bytes: int) -> None:
        while self._kept and self.n_bytes + n_bytes > self._max_bytes:
            _, (_, freed) = self._kept.popitem(last=False)
            self.n_bytes -= freed
        self._kept[expert] = (weights, n_bytes)
        self.n_bytes += n_bytes


class PendingReads:
    """One layer's calls: those in the cache, and those that are being read."""

    def __init__(
        self,
        work: DiskWork,
        hits: Sequence[tuple[DiskCall, ExpertWeights]],
        reads: dict[Future[ExpertWeights], DiskCall],
        n_bytes: Callable[[int], int],
    ) -> None:
        """Hold what `DiskTier.begin` started; `n_bytes` are those of an expert."""
        self._n_bytes = n_bytes
        self._work = work
        self._hits = hits
        self._reads = reads

    def finish(self) -> DiskAnswer:
        """Compute each expert as it comes; see `PendingDisk`."""
        values = self._computed(self._hits)
        lost: list[int] = []
        read_bytes = {call.expert: 0 for call, _ in self._hits}
        for read in as_completed(self._reads):
            call = self._reads[read]
            try:
                weights = read.result()
            except ModelFileError:
                lost.append(call.expert)
                continue
            read_bytes[call.expert] = self._n_bytes(call.expert)
            values.update(self._computed([(call, weights)]))
        return DiskAnswer(
            values=values, read_bytes=read_bytes, lost=tuple(sorted(lost))
        )

    def abandon(self) -> None:
        """Take back the reads that have not begun."""
        for read in self._reads:
            read.cancel()

    def _computed(
        self, calls: Sequence[tuple[DiskCall, ExpertWeights]]
    ) -> dict[int, Floats]:
        work = self._work
        jobs = [KernelCall(weights=weights, rows=call.rows) for call, weights in calls]
        results = work.kernel.expert_values(jobs, work.coded, work.profile)
        return {call.expert: y for (call, _), y in zip(calls, results, strict=True)}
