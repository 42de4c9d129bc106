"""The disk tier that asks a child which maps the file; a `DiskExperts`.

Rules:
- The child is started with the first call that needs it. When it dies, by SIGBUS at a
  page that the file has lost (fault B03), by the system's choice of whom to kill or by
  being silent for long, only its calls are affected, and the next is started at most
  every 30 s, when there are calls (fault B15).
- A model file that was written to since it was opened has lost all experts, and no
  child maps it again: what the child gave in the meantime is not used, since bytes of
  two models must never be mixed.
- Calls that a child left behind are computed here, on what positioned reads give, one
  after the other; what those cannot read is lost.
- One thread starts children and writes to them, so that `begin` never waits.
"""

import contextlib
import itertools
import logging
import queue
import sys
import threading
import time

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.disk_experts import DiskCall, DiskWork
from p2pmoe.backbone.mapped.life import ChildLife, ChildOrder, Said
from p2pmoe.backbone.mapped.messages import (
    Call,
    MessageMalformed,
    Values,
    Work,
    pack_work,
)
from p2pmoe.backbone.mapped.pending import PendingMapped
from p2pmoe.backbone.mapped.process_figures import ProcessFigures
from p2pmoe.backbone.mapped.restarts import RestartTimes
from p2pmoe.errors import ConfigurationError
from p2pmoe.prometheus import render_metric
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.model_file import ModelFile

__all__ = ["MappedExperts", "map_experts"]

log = logging.getLogger("p2pmoe.backbone")

_END_S = 1.0


def map_experts(
    model_file: ModelFile,
    expert_file: ExpertFile,
    *,
    kernel: str,
    n_threads: int,
    cost: LocalCost,
) -> "MappedExperts":
    """Return the tier for a model, if it can be mapped; starts nothing.

    Raises:
        ConfigurationError: it is no plain file, or this system lacks what it takes.
    """
    path = model_file.path
    if sys.platform == "win32":
        raise ConfigurationError(
            "--disk mmap is not for Windows", advice="leave it out: experts are read"
        )
    fds = model_file.descriptors()
    if not fds:
        raise ConfigurationError(
            f"--disk mmap needs a GGUF file, which {path} is not",
            advice="leave it out, or convert the model: p2pmoe convert",
        )
    order = ChildOrder(fds=fds, kernel=kernel, n_threads=n_threads)
    return MappedExperts(model_file, expert_file, order, cost=cost)


class MappedExperts:
    """Experts computed by a child that maps the file; see the module."""

    def __init__(
        self,
        model_file: ModelFile,
        expert_file: ExpertFile,
        order: ChildOrder,
        *,
        cost: LocalCost,
        restarts: RestartTimes | None = None,
    ) -> None:
        """Map the files of `order`, which are those of `model_file`; starts nothing."""
        self._model_file = model_file.share()
        self._file = expert_file
        self._order = order
        self._cost = cost
        self.restarts = restarts or RestartTimes()
        self._stamp = model_file.stamp()
        self._jobs: dict[int, PendingMapped] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[tuple[PendingMapped, bytes] | None] = (
            queue.SimpleQueue()  # an item for each lane's call, and abandoned ones
        )
        self._keeper: threading.Thread | None = None
        self._child: ChildLife | None = None
        self._now, self._before = ProcessFigures(), ProcessFigures()
        self.n_reads = self.n_read_bytes = self.n_hits = 0
        self.lost: set[ExpertId] = set()

    @property
    def n_bytes(self) -> int:
        """Bytes held here: none; mapped pages are the system's."""
        return 0

    @property
    def child_pid(self) -> int | None:
        """The child's process id, while there is one."""
        child = self._child
        return None if child is None else child.pid

    def figures(self) -> ProcessFigures:
        """Return what the child holds, and the counts of all children so far."""
        return self._now.after(self._before)

    def samples(self) -> str:
        """Return what the child holds and has read; see docs/reference/metrics.md."""
        now = self.figures()
        values = {
            "p2pmoe_mapped_up": int(self._child is not None),
            "p2pmoe_mapped_starts_total": self.restarts.n_starts,
            "p2pmoe_mapped_resident_bytes": now.resident_bytes,
            "p2pmoe_mapped_virtual_bytes": now.virtual_bytes,
            "p2pmoe_mapped_swap_bytes": now.swap_bytes,
            "p2pmoe_mapped_minor_faults_total": now.minor_faults,
            "p2pmoe_mapped_major_faults_total": now.major_faults,
            "p2pmoe_mapped_read_bytes_total": now.read_bytes,
        }
        return "".join(render_metric(name, [({}, n)]) for name, n in values.items())

    def load(self, expert: ExpertId) -> ExpertWeights:
        """Return an expert, read by position and not kept; ModelFileError."""
        try:
            weights = self._file.weights(expert)
        except ModelFileError as error:
            self.note_lost(expert, error.reason)
            raise
        self.lost.discard(expert)
        return weights

    def foresee(
        self, layer: int, hidden: Floats, experts: npt.NDArray[np.int64]
    ) -> None:
        """Do nothing: the child asks for a layer's experts when it gets them."""

    def begin(self, work: DiskWork) -> PendingMapped:
        """Hand one layer's calls to the child; see `DiskExperts`."""
        pending = PendingMapped(self, next(self._numbers), work)
        try:
            body = pack_work(self._order_of(pending))
        except ModelFileError:
            pending.give_up()
            return pending
        with self._lock:
            self._jobs[pending.job] = pending
            if self._keeper is None:
                self._keeper = threading.Thread(
                    target=self._keep, name="mapped keeper", daemon=True
                )
                self._keeper.start()
        self._queue.put((pending, body))
        return pending

    def close(self) -> None:
        """End the child; calls under way are given up."""
        with self._lock:
            keeper, self._keeper = self._keeper, None
        if keeper is not None:
            self._queue.put(None)
            child = self._child
            if child is not None:
                child.close()
            keeper.join(_END_S)
        self._model_file.close()

    # What pending calls ask.

    def has_changed(self) -> bool:
        """Whether the file was written to since it was opened."""
        return self._model_file.stamp() != self._stamp

    def forget(self, pending: PendingMapped) -> None:
        """Drop what a child may still say to these calls."""
        with self._lock:
            self._jobs.pop(pending.job, None)

    def look_after(self, pending: PendingMapped) -> None:
        """End a child that hangs over these calls."""
        child = pending.child
        if child is not None and child.hangs(pending.since):
            log.warning("the process that maps %s hangs", self._model_file.path)
            child.kill()

    def note_read(self, said: Values) -> None:
        """Count one answer of the child."""
        n_bytes = said.counts.read_bytes
        with self._lock:
            self.lost.discard(said.expert)
            self.n_hits += not n_bytes
            self.n_reads += bool(n_bytes)
            self.n_read_bytes += n_bytes
            if n_bytes:
                self._cost.observe_read(said.micros / 1e6, n_bytes)

    def note_lost(self, expert: ExpertId, reason: str) -> None:
        """Keep that an expert cannot be had, and say so once."""
        with self._lock:
            is_news = expert not in self.lost
            self.lost.add(expert)
        if is_news:
            path = self._model_file.path
            log.error("shard lost: %s, expert %s: %s", path, expert, reason)

    def compute(self, work: DiskWork, call: DiskCall) -> tuple[Floats, int]:
        """Compute here what no child did; the values, and the bytes read."""
        expert = ExpertId(work.layer, call.expert)
        job = KernelCall(weights=self.load(expert), rows=call.rows)
        (values,) = work.kernel.expert_values([job], work.coded, work.profile)
        n_bytes = self._file.n_bytes(expert)
        with self._lock:
            self.n_reads += 1
            self.n_read_bytes += n_bytes
        return values, n_bytes

    # The keeper's part, and the reader's.

    def _order_of(self, pending: PendingMapped) -> Work:
        work = pending.work
        experts = [ExpertId(work.layer, call.expert) for call in work.calls]
        return Work(
            job=pending.job,
            profile=work.profile,
            rows=work.coded,
            calls=[
                Call(
                    expert=expert,
                    ranges=self._file.ranges(expert),
                    activation=self._file.activation,
                    rows=call.rows,
                )
                for expert, call in zip(experts, work.calls, strict=True)
            ],
        )

    def _keep(self) -> None:
        """Start children and write to them; they end with this thread."""
        while (item := self._queue.get()) is not None:
            pending, body = item
            if pending.is_over:
                continue
            child = self._living()
            if child is None:
                pending.give_up()
                continue
            pending.since, pending.child = time.monotonic(), child
            try:
                child.send(body)
            except (OSError, MessageMalformed):
                pending.give_up()
            if self._child is not child:  # it ended meanwhile
                pending.give_up()

    def _living(self) -> ChildLife | None:
        if self._child is not None or self.has_changed():
            return self._child
        if not self.restarts.may_start(time.monotonic()):
            return None
        with contextlib.suppress(OSError):
            child = ChildLife(self._order, self._heard, self._ended)
            log.info("process %d maps %s", child.pid, self._model_file.path)
            with self._lock:  # it may be gone, and its end told, before this
                self._child = None if child.has_ended else child
        return self._child

    def _heard(self, said: Said) -> None:
        if isinstance(said, ProcessFigures):
            self._now = said
            return
        with self._lock:
            pending = self._jobs.get(said.job)
        if pending is not None:
            pending.heard(said)

    def _ended(self, child: ChildLife, how: str) -> None:
        with self._lock:
            self._child = None
            given_up = [one for one in self._jobs.values() if one.child is child]
            self._before = self._now.after(self._before)
            self._now = ProcessFigures()
            is_closing = self._keeper is None
        if not is_closing:
            self._tell(how)
        for pending in given_up:
            pending.give_up()

    def _tell(self, how: str) -> None:
        path = self._model_file.path
        if self.has_changed():
            log.error(
                "shard lost: %s: the file was cut short or written to; the process "
                "that mapped it %s",
                path,
                how,
            )
        else:
            log.warning(
                "the process that maps %s %s; its experts are read until the next one",
                path,
                how,
            )
