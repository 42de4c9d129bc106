"""Run a service until it is told to stop, or work to its end; say when it is ready.

SIGTERM ends it with exit code 0, SIGINT with 130; either cancels the service, whose own
clean-up then runs. Work that has a result is interrupted by either, and by the end of
its terminal (SIGHUP): what it started must not outlive it. A ready file is written
whole: who waits for it never reads half.
"""

import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeVar

import trio

from p2pmoe.network.errors import FolderUnusable

__all__ = [
    "allow_many_files",
    "log_to_stderr",
    "on_hangup",
    "run_service",
    "run_to_the_end",
    "run_until_ready",
    "write_ready_file",
]

log = logging.getLogger("p2pmoe.network")

_T = TypeVar("_T")
_HANGUP: Final = getattr(signal, "SIGHUP", None)  # Windows has none
_STREAMS: Final = (0, 1, 2)
_LINE = "%(asctime)s %(name)s %(message)s"


def run_service(service: Callable[[], Awaitable[None]]) -> None:
    """Run an async service in a trio loop of its own until it ends or a signal comes.

    Raises:
        KeyboardInterrupt: SIGINT came; the service has cleaned up.
        BaseExceptionGroup: what the service raised.
    """
    signals: list[int] = []
    trio.run(_serve, service, signals)
    if signal.SIGINT in signals:
        raise KeyboardInterrupt


async def _serve(service: Callable[[], Awaitable[None]], signals: list[int]) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as arriving:
        async with trio.open_nursery() as nursery:

            async def wait_for_signal() -> None:
                async for number in arriving:
                    signals.append(number)
                    nursery.cancel_scope.cancel()

            nursery.start_soon(wait_for_signal)
            await service()
            nursery.cancel_scope.cancel()


def allow_many_files() -> None:
    """Let this process open as many files and sockets as the system allows it.

    The usual soft limit of 1,024 is below the peers of one relay.
    """
    try:
        import resource  # noqa: PLC0415 - Windows has none, and no such limit
    except ImportError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def on_hangup(
    action: Callable[[], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call `action` at each SIGHUP, until cancelled; where there is none, never.

    Started once the signal does no longer end the process.

    A terminal that closes sends the same signal: a service that was started from one
    then ends as by SIGTERM, if the terminal is gone.
    """
    had_terminal = _has_terminal()
    if _HANGUP is None:
        task_status.started()
    else:
        with trio.open_signal_receiver(_HANGUP) as arriving:
            task_status.started()
            async for _ in arriving:
                if had_terminal and not _has_terminal():
                    os.kill(os.getpid(), signal.SIGTERM)
                else:
                    action()


def _has_terminal() -> bool:
    """Tell whether one of the standard streams is a terminal that is still there."""
    return any(os.isatty(stream) for stream in _STREAMS)


def run_to_the_end(work: Callable[[], Awaitable[_T]]) -> _T:
    """Run async work in a trio loop of its own and return what it gives.

    A closed terminal that is ignored (nohup) stays so.

    Raises:
        KeyboardInterrupt: SIGINT, SIGTERM or SIGHUP came; the work has cleaned up.
        BaseExceptionGroup: what the work raised.
    """
    results: list[_T] = []
    heeded = [signal.SIGINT, signal.SIGTERM]
    if _HANGUP is not None and signal.getsignal(_HANGUP) is not signal.SIG_IGN:
        heeded.append(_HANGUP)

    async def run() -> None:
        with trio.open_signal_receiver(*heeded) as arriving:
            async with trio.open_nursery() as nursery:

                async def wait_for_signal() -> None:
                    async for _ in arriving:
                        nursery.cancel_scope.cancel()

                nursery.start_soon(wait_for_signal)
                results.append(await work())
                nursery.cancel_scope.cancel()

    trio.run(run)
    if not results:  # it was told to end
        raise KeyboardInterrupt
    return results[0]


class _Startable(Protocol):
    """A service that says when it is up."""

    async def __call__(self, *, task_status: trio.TaskStatus[None]) -> None: ...


async def run_until_ready(
    service: _Startable, ready_file: Path | None, report: Mapping[str, object]
) -> None:
    """Run a service that says when it is up; log it and write the ready file then."""
    async with trio.open_nursery() as nursery:
        await nursery.start(service)
        log.info("up: %s", ", ".join(f"{key} {what}" for key, what in report.items()))
        write_ready_file(ready_file, report)


class _Plain(logging.Formatter):
    """A line for a terminal: the time of day, and which part of the process speaks."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(part)s: %(message)s", datefmt="%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        record.part = record.name.removeprefix("p2pmoe.")
        return super().format(record)


def log_to_stderr(level: int = logging.INFO) -> None:
    """Show what the services log, from `level` on, on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Plain() if sys.stderr.isatty() else logging.Formatter(_LINE))
    logger = logging.getLogger("p2pmoe")
    logger.addHandler(handler)
    logger.setLevel(level)


def write_ready_file(path: Path | None, report: Mapping[str, object]) -> None:
    """Write the report as JSON, if a path is given.

    Raises:
        FolderUnusable: it cannot be written.
    """
    if path is None:
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        draft.write_text(json.dumps(report) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise FolderUnusable(
            f"cannot write ready file {path}: {reason}",
            advice="name a path in a folder that can be written",
        ) from exc
