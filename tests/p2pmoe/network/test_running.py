import json
import logging
import os
import re
import resource
import signal
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from p2pmoe.network import running
from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.running import (
    allow_many_files,
    log_to_stderr,
    on_hangup,
    run_service,
    run_to_the_end,
    run_until_ready,
    write_ready_file,
)


def signalled_by(number: signal.Signals, ended: list[str]):
    async def service() -> None:
        os.kill(os.getpid(), number)
        try:
            await trio.sleep_forever()
        finally:
            ended.append("cleaned up")

    return service


def test_sigterm_ends_it_cleanly() -> None:
    ended: list[str] = []
    run_service(signalled_by(signal.SIGTERM, ended))
    assert ended == ["cleaned up"]


def test_an_interrupt_is_told_after_the_clean_up() -> None:
    ended: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run_service(signalled_by(signal.SIGINT, ended))
    assert ended == ["cleaned up"]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_work_that_is_asked_to_end_is_interrupted_after_its_clean_up(name: str) -> None:
    ended: list[str] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_to_the_end(signalled_by(signal.Signals[name], ended))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended == ["cleaned up"]


def test_work_gives_its_result_and_what_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def work() -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        await trio.lowlevel.checkpoint()
        return 7

    try:
        assert run_to_the_end(work) == 7
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_hangup_is_answered_while_the_service_goes_on() -> None:
    heard: list[int] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(on_hangup, lambda: heard.append(1))
            for n in (1, 2):
                os.kill(os.getpid(), signal.SIGHUP)
                while len(heard) < n:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert heard == [1, 1]


def test_a_hangup_whose_terminal_is_gone_ends_the_service(monkeypatch) -> None:
    terminal = iter([True, False])
    monkeypatch.setattr(running, "_has_terminal", lambda: next(terminal))
    ended: list[str] = []

    async def service() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(on_hangup, lambda: ended.append("reloaded"))
            os.kill(os.getpid(), signal.SIGHUP)
            try:
                await trio.sleep_forever()
            finally:
                ended.append("cleaned up")

    run_service(service)
    assert ended == ["cleaned up"]


def test_as_many_files_as_the_system_allows() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        allow_many_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_service_that_ends_by_itself_ends_the_run() -> None:
    ended = []

    async def service() -> None:
        await trio.lowlevel.checkpoint()
        ended.append("by itself")

    run_service(service)
    assert ended == ["by itself"]


def test_what_the_service_raises_comes_out() -> None:
    async def service() -> None:
        await trio.lowlevel.checkpoint()
        raise OSError("broken")

    with pytest.raises(ExceptionGroup) as caught:
        run_service(service)
    assert caught.group_contains(OSError, match="broken")


def test_the_ready_file_comes_when_the_service_is_up(tmp_path: Path) -> None:
    path = tmp_path / "ready"

    async def service(*, task_status: trio.TaskStatus[None]) -> None:
        assert not path.exists()
        task_status.started()
        await trio.testing.wait_all_tasks_blocked()
        assert path.exists()

    trio.run(run_until_ready, service, path, {"peer_id": "ab"})
    assert json.loads(path.read_text()) == {"peer_id": "ab"}
    assert [p.name for p in tmp_path.iterdir()] == ["ready"]


def test_no_path_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_ready_file(None, {})
    assert list(tmp_path.iterdir()) == []


def test_a_ready_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "ready"
    with pytest.raises(FolderUnusable, match=str(path)):
        write_ready_file(path, {})


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_line_of_the_log(capsys, monkeypatch, is_terminal: bool) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    logger = logging.getLogger("p2pmoe")
    before, level = list(logger.handlers), logger.level
    logger.handlers[:] = []  # commands that other tests ran here have left theirs
    try:
        log_to_stderr()
        logging.getLogger("p2pmoe.market").info("worker %s", "abc")
    finally:
        logger.handlers[:] = before
        logger.setLevel(level)
    line = capsys.readouterr().err
    if is_terminal:
        assert re.fullmatch(r"\d\d:\d\d:\d\d market: worker abc\n", line)
    else:
        assert re.fullmatch(
            r"\d{4}-\d\d-\d\d .*,\d{3} p2pmoe.market worker abc\n", line
        )
