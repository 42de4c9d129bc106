"""Routed experts on the local disk: positioned reads, several at a time, within bounds.

Never mapped: a file cut short is an error naming it, for that read alone (fault B03).
What was read is offered to the hot set, which keeps what will be needed soonest; who
computes with an expert holds it until then, whether it was kept or not. Rules:

- a layer's reads fly while the caller computes what is in memory, and each expert is
  computed as it comes; an expert is read once, however many lanes want it;
- of what is read and not yet computed there are at most `window_bytes` a layer under
  way (one expert at least), and as much again read ahead: so memory stays bounded
  whatever a step asks for;
- what is foreseen for a coming layer is read ahead on threads of its own, and only
  while that pays (foresight.py).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.disk_experts import DiskAnswer, DiskCall, DiskWork
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.foresight import Foresight
from p2pmoe.prometheus import render_metric
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.expert_file import ExpertFile

__all__ = ["DiskTier", "PendingReads"]

log = logging.getLogger("p2pmoe.backbone")

_READERS = 4  # reads at a time: as many as a solid-state disk wants in its queue
_AHEAD_READERS = 2  # fewer: what is needed now comes first

Read = Future[ExpertWeights]


@dataclass(frozen=True, slots=True, eq=False)
class _Flight:
    """A read under way, and whether it was foreseen."""

    read: Read
    ahead: bool


class DiskTier:
    """Reads of an `ExpertFile` into a hot set; thread-safe. A `DiskExperts`."""

    def __init__(
        self,
        expert_file: ExpertFile,
        hot: HotSet,
        *,
        window_bytes: int,
        cost: LocalCost,
        foresight: Foresight | None = None,
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Read for `hot`, `window_bytes` at a time; without `foresight` never ahead."""
        self._file = expert_file
        self._hot = hot
        self._window_bytes = window_bytes
        self._cost = cost
        self._foresight = foresight
        self._monotonic = monotonic
        self._flights: dict[ExpertId, _Flight] = {}
        self._ahead_bytes = 0  # being read ahead now
        self._lock = threading.Lock()
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="disk")
        self._ahead = ThreadPoolExecutor(_AHEAD_READERS, thread_name_prefix="ahead")
        self.n_reads = 0
        self.n_ahead = 0  # of the reads: those that were foreseen
        self.n_read_bytes = 0
        self.n_hits = 0
        self.lost: set[ExpertId] = set()  # each is logged once

    @property
    def n_bytes(self) -> int:
        """Bytes being read now."""
        with self._lock:
            return sum(self._hot.sizes[expert] for expert in self._flights)

    def load(self, expert: ExpertId) -> ExpertWeights:
        """Return an expert, from memory or the disk; ModelFileError."""
        found, _ = self.find(expert)
        return found.result() if isinstance(found, Future) else found

    def begin(self, work: DiskWork) -> "PendingReads":
        """Start reading what one layer needs; see `DiskExperts`."""
        return PendingReads(self, work)

    def find(self, expert: ExpertId) -> tuple[ExpertWeights | Read, int]:
        """Return an expert or its read, and the bytes read because of this call."""
        with self._lock:
            weights = self._hot.get(expert)
            if weights is not None:
                self.n_hits += 1
                return weights, 0
            flight = self._flights.get(expert)
            if flight is not None:
                self.n_hits += flight.ahead
                return flight.read, 0
            return self._fly(expert, ahead=False), self._hot.sizes[expert]

    def samples(self) -> str:
        """Return what was read ahead, what gave way, and how good guesses were."""
        foresight = self._foresight
        recall = {} if foresight is None else foresight.recall()
        is_on = foresight is not None and foresight.trial.is_on
        labelled = [({"layer": str(layer)}, share) for layer, share in recall.items()]
        return "".join(
            (
                render_metric("p2pmoe_disk_reads_ahead_total", [({}, self.n_ahead)]),
                render_metric(
                    "p2pmoe_evicted_experts_total", [({}, self._hot.n_evicted)]
                ),
                render_metric("p2pmoe_foresight_recall", labelled),
                render_metric("p2pmoe_foresight_active", [({}, int(is_on))]),
            )
        )

    def close(self) -> None:
        """Let readers end with what they are at."""
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._ahead.shutdown(wait=False, cancel_futures=True)

    def window(self, layer: int) -> int:
        """Return how many experts of a layer may be read and not yet computed."""
        return max(1, self._window_bytes // max(1, self._hot.sizes[ExpertId(layer, 0)]))

    def foresee(
        self, layer: int, hidden: Floats, experts: npt.NDArray[np.int64]
    ) -> None:
        """Read ahead what the next layer is likely to need; see `DiskExperts`."""
        if self._foresight is None or self._hot.holds_all:
            return
        guess = self._foresight.guess(layer, hidden, experts)
        if guess is None:
            return
        self._hot.foresee(guess.layer, guess.experts)
        for index in guess.experts.tolist():
            expert = ExpertId(guess.layer, index)
            n_bytes = self._hot.sizes[expert]
            with self._lock:
                if self._hot.get(expert) is not None or expert in self._flights:
                    continue
                if self._ahead_bytes + n_bytes > self._window_bytes:
                    return
                self._fly(expert, ahead=True)

    def _fly(self, expert: ExpertId, *, ahead: bool) -> Read:
        """Begin a read; the lock is held."""
        readers = self._ahead if ahead else self._readers
        if ahead:
            self._ahead_bytes += self._hot.sizes[expert]
        read = readers.submit(self._read, expert, ahead=ahead)
        self._flights[expert] = _Flight(read, ahead)
        return read

    def _read(self, expert: ExpertId, *, ahead: bool) -> ExpertWeights:
        """Read an expert and offer it to the hot set; on a thread of its own."""
        start = self._monotonic()
        n_bytes = self._hot.sizes[expert]
        try:
            weights = self._file.weights(expert)
            seconds = self._monotonic() - start
            self._hot.adopt(expert, weights)
        except ModelFileError as error:
            self._note_lost(expert, error)
            raise
        finally:
            with self._lock:
                n_at_once = len(self._flights)
                del self._flights[expert]
                self._ahead_bytes -= n_bytes if ahead else 0
        with self._lock:
            self._cost.observe_read(seconds, n_bytes, n_at_once)
            self.n_reads += 1
            self.n_ahead += ahead
            self.n_read_bytes += n_bytes
        return weights

    def _note_lost(self, expert: ExpertId, error: ModelFileError) -> None:
        with self._lock:
            is_news = expert not in self.lost
            self.lost.add(expert)
        if is_news:
            log.error("shard lost: %s", error)


class PendingReads:
    """One layer's calls: what is in memory, what is being read, and what waits."""

    def __init__(self, disk: DiskTier, work: DiskWork) -> None:
        """Begin as many reads as the window allows."""
        self._disk = disk
        self._work = work
        self._waiting = deque(work.calls)
        self._reads: dict[Read, list[DiskCall]] = {}
        self._here: list[tuple[DiskCall, ExpertWeights]] = []
        self._values: dict[int, Floats] = {}
        self._read_bytes: dict[int, int] = {}
        self._lost: list[int] = []
        self._begin_more()

    def finish(self) -> DiskAnswer:
        """Compute each expert as it comes; see `PendingDisk`."""
        while self._here or self._reads:
            if not self._here:
                self._take(wait(self._reads, return_when=FIRST_COMPLETED).done)
            here, self._here = self._here, []
            self._begin_more()
            if here:
                self._values.update(_computed(self._work, here))
        return DiskAnswer(
            values=self._values,
            read_bytes=self._read_bytes,
            lost=tuple(sorted(self._lost)),
        )

    def abandon(self) -> None:
        """Begin no more reads; those under way end by themselves."""
        self._waiting.clear()
        self._reads.clear()
        self._here.clear()

    def _begin_more(self) -> None:
        window = self._disk.window(self._work.layer)
        while self._waiting and len(self._reads) + len(self._here) < window:
            call = self._waiting.popleft()
            found, n_bytes = self._disk.find(ExpertId(self._work.layer, call.expert))
            self._read_bytes[call.expert] = n_bytes
            if isinstance(found, Future):
                self._reads.setdefault(found, []).append(call)
            else:
                self._here.append((call, found))

    def _take(self, done: Iterable[Read]) -> None:
        for read in done:
            calls = self._reads.pop(read)
            try:
                weights = read.result()
            except ModelFileError:
                self._lost += [call.expert for call in calls]
                for call in calls:
                    del self._read_bytes[call.expert]
            else:
                self._here += [(call, weights) for call in calls]


def _computed(
    work: DiskWork, calls: Sequence[tuple[DiskCall, ExpertWeights]]
) -> dict[int, Floats]:
    jobs = [KernelCall(weights=weights, rows=call.rows) for call, weights in calls]
    results = work.kernel.expert_values(jobs, work.coded, work.profile)
    return {call.expert: y for (call, _), y in zip(calls, results, strict=True)}
