"""A worker as a process: signals in, exit code out.

SIGTERM drains and ends with 0, SIGINT drains and ends with 130; a second signal ends at
once. What is signed and not filed stays in the spool and is filed at the next start.
"""

import signal
from dataclasses import dataclass

import trio

from mobile_worker.contribute.outcome import only_error
from mobile_worker.contribute.service import Hooks, contribute
from mobile_worker.contribute.settings import ContributeSettings

__all__ = ["run_worker"]

_INTERRUPTED = 130


@dataclass(slots=True)
class _Ending:
    exit_code: int = 0


async def run_worker(settings: ContributeSettings, hooks: Hooks | None = None) -> int:
    """Run `contribute` until it ends or a signal comes; return the exit code."""
    stop, ending = trio.Event(), _Ending()
    with only_error():
        async with trio.open_nursery() as nursery:
            await nursery.start(_listen, stop, ending, nursery.cancel_scope)
            await contribute(settings, stop, hooks)
            nursery.cancel_scope.cancel()
    return ending.exit_code


async def _listen(
    stop: trio.Event,
    ending: _Ending,
    scope: trio.CancelScope,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for received in signals:
            if stop.is_set():
                scope.cancel()
            if received == signal.SIGINT:
                ending.exit_code = _INTERRUPTED
            stop.set()
