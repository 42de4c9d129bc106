"""The writer: grouped commits, answers after them, faults of disk and program."""

import os
import threading
from concurrent.futures import Future
from typing import Self

import pytest
from sqlalchemy import event

from ledger.database import LedgerFolder, open_writing_engine
from ledger.errors import InsufficientFunds, StoreBusy, StoreUnavailable
from ledger.writer import Writer, WriterSettings
from tests.support.ledger_world import World


class Bench:
    """A writer with its engine, and what its connection did."""

    def __init__(self, path, **settings) -> None:
        world = World()
        folder = LedgerFolder(path)
        self.engine = open_writing_engine(folder, world.identity)
        self.log: list[str] = []
        event.listen(self.engine, "commit", lambda _: self.log.append("commit"))
        event.listen(self.engine, "rollback", lambda _: self.log.append("rollback"))
        self.writer = Writer(
            self.engine,
            folder,
            world.identity,
            lambda: 7,
            WriterSettings(**{"window_s": 0.0, **settings}),
        )
        self.log.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()
        self.engine.dispose()

    def blocked(self) -> tuple[threading.Event, Future[None]]:
        """Keep the thread busy until the event is set."""
        go, started = threading.Event(), threading.Event()

        def wait(_: object) -> None:
            started.set()
            go.wait(60)

        future = self.writer.submit(wait)
        started.wait(60)
        return go, future


def test_many_jobs_share_a_commit_and_answers_come_after_it(tmp_path):
    with Bench(tmp_path) as bench:
        go, first = bench.blocked()
        seen = []
        futures = [bench.writer.submit(lambda desk: desk.now_us) for _ in range(50)]
        futures[0].add_done_callback(lambda _: seen.append(list(bench.log)))
        assert not first.done()
        go.set()
        assert [f.result(60) for f in futures] == [7] * 50
        assert bench.log == ["commit", "commit"]
        assert seen[0] == ["commit", "commit"]


def test_a_window_gathers_what_comes_within_it_until_the_group_is_full(tmp_path):
    with Bench(tmp_path, window_s=600.0, max_group=10) as bench:
        futures = [bench.writer.submit(lambda _: None) for _ in range(10)]
        for future in futures:
            future.result(60)
        assert bench.log == ["commit"]


def test_a_job_that_breaks_a_rule_fails_alone(tmp_path):
    def broke(_: object) -> None:
        raise InsufficientFunds("no")

    with Bench(tmp_path) as bench:
        go, _ = bench.blocked()
        futures = [
            bench.writer.submit(job) for job in (lambda _: 1, broke, lambda _: 2)
        ]
        go.set()
        assert futures[0].result(60) == 1
        assert futures[2].result(60) == 2
        with pytest.raises(InsufficientFunds):
            futures[1].result(60)


def test_a_bug_fails_its_group_and_the_ledger_goes_on(tmp_path, caplog):
    with Bench(tmp_path) as bench:
        with pytest.raises(ZeroDivisionError):
            bench.writer.submit(lambda _: 1 // 0).result(60)
        assert bench.writer.submit(lambda _: "on").result(60) == "on"
        assert bench.log[0] == "rollback"
    assert "a group of 1 writes failed" in caplog.text


def test_a_full_disk_is_one_line_and_what_follows_works(tmp_path, monkeypatch, caplog):
    with Bench(tmp_path) as bench:

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        def write(desk) -> None:
            desk._files.append(bytes(79))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StoreUnavailable, match="No space left on device") as caught:
            bench.writer.submit(write).result(60)
        assert "\n" not in str(caught.value)
        monkeypatch.undo()
        assert (tmp_path / "leaves" / "00000001.leaves").stat().st_size == 79
        assert bench.writer.submit(lambda _: "on").result(60) == "on"
        assert (tmp_path / "leaves" / "00000001.leaves").stat().st_size == 0


def test_b35_who_waits_too_long_may_try_again(tmp_path):
    seconds = [0.0]
    with Bench(tmp_path, monotonic=lambda: seconds[0]) as bench:
        go, _ = bench.blocked()
        future = bench.writer.submit(lambda _: None)
        seconds[0] = 5.1
        go.set()
        with pytest.raises(StoreBusy):
            future.result(60)


def test_a_full_queue_says_so(tmp_path):
    with Bench(tmp_path, max_queued=2) as bench:
        go, _ = bench.blocked()
        for _ in range(2):
            bench.writer.submit(lambda _: None)
        with pytest.raises(StoreBusy):
            bench.writer.submit(lambda _: None)
        go.set()


def test_closing_finishes_what_was_taken(tmp_path):
    bench = Bench(tmp_path)
    go, _ = bench.blocked()
    future = bench.writer.submit(lambda _: "done")
    cancelled = bench.writer.submit(lambda _: "never")
    assert cancelled.cancel()
    go.set()
    bench.writer.close()
    bench.writer.close()
    assert future.result(0) == "done"
    with pytest.raises(StoreUnavailable, match="closed"):
        bench.writer.submit(lambda _: None)
    bench.engine.dispose()
