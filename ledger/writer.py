"""The one writer: a thread that turns many small writes into few durable commits.

Contract: `submit` takes a job (a function of the desk) and returns a future at once.
The thread gathers jobs for a short window, runs them one after the other in one
transaction that began with BEGIN IMMEDIATE, syncs, commits, and only then resolves
their futures: what was answered is on the disk. A job that raises a `LedgerError`
changed nothing and fails alone. A fault of disk or database fails the whole group with
a one-line error, and the next group starts from what is committed. A job that waited
longer than `max_wait_s`, or that finds the queue full, gets `StoreBusy` and may be sent
again. The thread never reads wall time: it is passed in.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from ledger.database import LedgerFolder, LedgerIdentity, store_error
from ledger.desk import Desk
from ledger.errors import LedgerError, StoreBusy, StoreUnavailable

__all__ = ["Writer", "WriterSettings"]

_log = logging.getLogger("p2pmoe.ledger.writer")
T = TypeVar("T")
Job = Callable[[Desk], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSettings:
    """How writes are grouped."""

    window_s: float = 0.010  # how long to gather after the first job
    max_group: int = 1024
    max_queued: int = 16_384  # a full queue means: the disk is too slow, try later
    max_wait_s: float = 5.0
    monotonic: Callable[[], float] = time.monotonic  # seconds


@dataclass(slots=True)
class _Queued:
    job: Job
    future: Future[Any]
    since: float
    content_hash: bytes | None


class Writer:
    """Runs jobs on the desk, group by group, in a thread of its own."""

    def __init__(
        self,
        engine: Engine,
        folder: LedgerFolder,
        owner: LedgerIdentity,
        wall_us: Callable[[], int],
        settings: WriterSettings,
    ) -> None:
        """Open the desk and start the thread.

        Raises:
            StoreUnavailable, DifferenceFound: the folder is not usable as it is.
        """
        self._engine = engine
        self._folder = folder
        self._owner = owner
        self._wall_us = wall_us
        self._settings = settings
        self._now = settings.monotonic
        self._queue: queue.Queue[_Queued | None] = queue.Queue(settings.max_queued)
        self._closing = threading.Event()
        self._connection: Connection | None = None
        self._desk: Desk | None = None
        self._open_desk()
        self._thread = threading.Thread(
            target=self._run, name="ledger-writer", daemon=True
        )
        self._thread.start()

    def submit(
        self, job: Callable[[Desk], T], content_hash: bytes | None = None
    ) -> Future[T]:
        """Queue a job; its future resolves after the commit.

        Args:
            job: what to do on the desk.
            content_hash: the voucher it files, so that a group is looked up at once.

        Raises:
            StoreUnavailable: the writer is closed.
            StoreBusy: the queue is full.
        """
        future: Future[T] = Future()
        if self._closing.is_set():
            raise StoreUnavailable("the ledger is closed")
        try:
            self._queue.put_nowait(_Queued(job, future, self._now(), content_hash))
        except queue.Full as exc:
            raise StoreBusy(f"{self._settings.max_queued} writes are waiting") from exc
        return future

    def close(self) -> None:
        """Finish what is queued and stop the thread."""
        if not self._closing.is_set():
            self._closing.set()
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            group, is_last = self._gather()
            if group:
                self._settle(group)
            if is_last:
                break
        self._drop_desk()

    def _gather(self) -> tuple[list[_Queued], bool]:
        """Wait for a first job, then take what comes within the window."""
        group: list[_Queued] = []
        until = float("inf")
        while len(group) < self._settings.max_group:
            wait = None if not group else max(0.0, until - self._now())
            try:
                queued = self._queue.get(block=wait != 0.0, timeout=wait)
            except queue.Empty:
                break
            if queued is None:
                return group, True
            if not group:
                until = self._now() + self._settings.window_s
            group.append(queued)
        return group, False

    def _settle(self, group: list[_Queued]) -> None:
        """Run a group; every future is resolved exactly once, after the commit."""
        outcomes: list[tuple[Future[Any], Any, BaseException | None]] = []
        group = [job for job in group if job.future.set_running_or_notify_cancel()]
        try:
            desk = self._desk or self._open_desk()
            self._commit(desk, group, outcomes)
        except (DBAPIError, OSError, LedgerError) as exc:
            error = (
                exc if isinstance(exc, LedgerError) else store_error(exc, self._folder)
            )
            _log.warning("a group of %d writes failed: %s", len(group), error)
            self._fail(group, error)
        except Exception as exc:  # noqa: BLE001  the thread's root: a bug fails one group
            _log.exception("a group of %d writes failed", len(group))
            self._fail(group, exc)
        else:
            for future, result, failure in outcomes:
                if failure is None:
                    future.set_result(result)
                else:
                    future.set_exception(failure)

    def _commit(
        self,
        desk: Desk,
        group: list[_Queued],
        outcomes: list[tuple[Future[Any], Any, BaseException | None]],
    ) -> None:
        if self._connection is None:
            raise StoreUnavailable("the ledger is closed")
        overdue = self._now() - self._settings.max_wait_s
        with self._connection.begin():
            hashes = [job.content_hash for job in group if job.content_hash]
            desk.begin(self._wall_us(), hashes)
            for queued in group:
                if queued.since < overdue:
                    busy = StoreBusy(f"waited {self._settings.max_wait_s} s for a turn")
                    outcomes.append((queued.future, None, busy))
                    continue
                try:
                    result = queued.job(desk)
                except LedgerError as exc:
                    outcomes.append((queued.future, None, exc))
                else:
                    outcomes.append((queued.future, result, None))
            desk.flush()
        desk.committed()

    def _fail(self, group: list[_Queued], error: BaseException) -> None:
        self._drop_desk()
        for queued in group:
            queued.future.set_exception(error)

    def _open_desk(self) -> Desk:
        try:
            self._connection = self._engine.connect()
            with self._connection.begin():
                self._desk = Desk(self._connection, self._folder, self._owner)
        except (DBAPIError, OSError) as exc:
            self._drop_desk()
            raise store_error(exc, self._folder) from exc
        except LedgerError:
            self._drop_desk()
            raise
        return self._desk

    def _drop_desk(self) -> None:
        if self._desk is not None:
            self._desk.close()
        if self._connection is not None:
            self._connection.close()
        self._desk = self._connection = None
