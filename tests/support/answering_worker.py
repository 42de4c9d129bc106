"""A desk behind its socket in a thread of its own, for commands that block."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import trio

from p2pmoe.contributor.control_socket import control_server
from p2pmoe.contributor.desk import Desk
from tests.support.worker_controls import FakeGovernor, worker_controls

__all__ = ["answering_worker"]


@contextlib.contextmanager
def answering_worker(folder: Path) -> Iterator[tuple[Desk, FakeGovernor, list[str]]]:
    """Serve a desk on a folder; give it, its governor and what ended it."""
    controls, governor, ended = worker_controls()
    desk = Desk(controls=controls)
    is_there = threading.Event()
    tokens: list[trio.lowlevel.TrioToken] = []
    scope = trio.CancelScope()

    async def serve() -> None:
        tokens.append(trio.lowlevel.current_trio_token())
        with scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(control_server(folder, desk).run)
                is_there.set()

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    try:
        assert is_there.wait(60)
        yield desk, governor, ended
    finally:
        tokens[0].run_sync_soon(scope.cancel)
        thread.join()
