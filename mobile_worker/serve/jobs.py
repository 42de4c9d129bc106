"""Dispatches that wait for a thread: first come, first served, bounded; no I/O.

The bound is in dispatches and in bytes of rows. A full queue refuses, and the backbone
is told BUSY; nothing is ever dropped silently. A cancelled job leaves the queue only
while it waits: what runs is finished. With the oldest go others that ask for some of
its experts, as long as they are few rows of experts that are large enough: they are
computed together (merging.py), and ahead of some that came before them, which lose
little by that.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.messages.serving import Dispatch
from mobile_worker.serve.merging import Asked, may_merge
from mobile_worker.servings.tab import Reservation, Tab
from relay.keys import PeerId

__all__ = ["MERGED_MACS", "Job", "JobQueue"]

_INDEX_BYTES = 36  # of one row index in a call, as it lies in memory
_MERGED_PAIRS = 64  # of experts and rows: beyond, a row hardly gets cheaper
MERGED_MACS = 1 << 20  # of one such pair; below, sorting rows costs what it saves


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """A dispatch that was taken: who asked, its weights, and its reservation."""

    peer: PeerId
    dispatch: Dispatch
    weights: Sequence[ExpertWeights]
    tab: Tab
    taken: Reservation
    received_at: float
    n_macs: int = 0  # multiply-adds

    @property
    def asked(self) -> Asked:
        """What is to be computed."""
        return Asked(self.dispatch, self.weights)

    @property
    def n_pairs(self) -> int:
        """Rows, each as often as an expert gets it."""
        return sum(len(call.rows) for call in self.dispatch.calls)

    @property
    def size(self) -> int:
        """The pairs, or the rows that came if those are more.

        Rows that no expert gets are nobody's work, but they are looked at all the same.
        """
        return max(self.n_pairs, self.dispatch.n_rows)

    @property
    def n_bytes(self) -> int:
        """Bytes of its rows, and of the indices that name them."""
        coded, floats = self.dispatch.coded, self.dispatch.floats
        n_coded = len(coded.codes) + len(coded.scales) if coded else 0
        n_indices = sum(len(call.rows) for call in self.dispatch.calls)
        return n_coded + len(floats or b"") + _INDEX_BYTES * n_indices

    def is_overdue(self, now: float) -> bool:
        """Whether its deadline, counted from receipt, has passed."""
        return (now - self.received_at) * 1000 > self.dispatch.deadline_ms


class JobQueue:
    """Jobs that wait."""

    def __init__(
        self,
        *,
        max_jobs: int = 64,
        max_bytes: int = 32 << 20,
        merged_macs: int = MERGED_MACS,
    ) -> None:
        """Take at most so many jobs and bytes of rows.

        merged_macs: multiply-adds of a row and expert from which jobs go together.
        """
        self._merged_macs = merged_macs
        self._max_jobs = max_jobs
        self._max_bytes = max_bytes
        self._jobs: deque[Job] = deque()
        self._n_bytes = 0

    def __len__(self) -> int:
        """Return how many jobs wait."""
        return len(self._jobs)

    @property
    def is_full(self) -> bool:
        """Whether no further job is taken."""
        return len(self._jobs) >= self._max_jobs or self._n_bytes >= self._max_bytes

    def push(self, job: Job) -> None:
        """Add a job; the caller has asked `is_full`."""
        self._jobs.append(job)
        self._n_bytes += job.n_bytes

    def pop(self) -> Job | None:
        """Take the oldest job, or None."""
        if not self._jobs:
            return None
        job = self._jobs.popleft()
        self._n_bytes -= job.n_bytes
        return job

    def pop_together(self) -> list[Job]:
        """Take the oldest job and those that gain by running with it; [] if none."""
        first = self.pop()
        if first is None:
            return []
        together, left = [first], _MERGED_PAIRS - first.size
        if first.n_macs < self._merged_macs * first.n_pairs:
            return together
        for job in tuple(self._jobs):
            if job.size > left:
                continue
            if may_merge([each.asked for each in together], job.asked):
                self._take(job)
                together.append(job)
                left -= job.size
        return together

    def cancel(self, peer: PeerId, request: int) -> Job | None:
        """Take a waiting job out, or return None if it does not wait here."""
        for job in self._jobs:
            if job.peer == peer and job.dispatch.request == request:
                self._take(job)
                return job
        return None

    def _take(self, job: Job) -> None:
        self._jobs.remove(job)
        self._n_bytes -= job.n_bytes
