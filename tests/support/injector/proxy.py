"""A TCP proxy on loopback that is as good or bad as its `Link` says.

While a line is full nothing more is read, and TCP slows the sender down. A connection
that breaks on one side is closed on the other; one that the link kills is reset on
both. `change` holds for what comes after it, on open connections too, and wakes lines
that would now break.
"""

import math
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import trio

from tests.support.injector.conditions import NEAR, Link
from tests.support.injector.line import Fate, Line, Wire

__all__ = ["Injector", "carry", "injected"]

_LOOPBACK = "127.0.0.1"
_BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


class _Killed(Exception):
    """The link breaks this connection."""


class Injector:
    """A proxy to one address; `port` is its own once `serve` has started."""

    def __init__(
        self, host: str, port: int, link: Link = NEAR, *, seed: int = 0
    ) -> None:
        """Stand before `host:port`; jitter is drawn from `seed`."""
        self._target = host, port
        self._seed = seed
        self._n_connections = 0
        self._changed = trio.Event()
        now = trio.current_time()
        self._up, self._down = Wire(link.up, now), Wire(link.down, now)
        self.port = 0

    def change(self, link: Link) -> None:
        """Be like `link` from now on; its times count from now."""
        now = trio.current_time()
        self._up.change(link.up, now)
        self._down.change(link.down, now)
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def serve(
        self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Carry connections until cancelled; started with our own port."""
        async with trio.open_nursery() as nursery:
            serve = partial(trio.serve_tcp, self._connection, 0, host=_LOOPBACK)
            listeners = await nursery.start(serve)
            self.port = listeners[0].socket.getsockname()[1]
            task_status.started(self.port)

    async def _connection(self, near: trio.SocketStream) -> None:
        number, self._n_connections = self._n_connections, self._n_connections + 1
        try:
            far = await trio.open_tcp_stream(*self._target)
        except OSError:
            return
        async with far, trio.open_nursery() as nursery:

            async def one_way(
                source: trio.SocketStream, sink: trio.SocketStream, wire: Wire, way: str
            ) -> None:
                seed = f"{self._seed} {number} {way}"
                line = Line(wire, trio.current_time(), seed)
                try:
                    await carry(source, sink, line, lambda: self._changed)
                except* _Killed:
                    for stream in (near, far):
                        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    nursery.cancel_scope.cancel()
                except* _BROKEN:
                    nursery.cancel_scope.cancel()

            nursery.start_soon(one_way, near, far, self._up, "up")
            nursery.start_soon(one_way, far, near, self._down, "down")


async def carry(
    source: trio.abc.ReceiveStream,
    sink: trio.abc.HalfCloseableStream,
    line: Line,
    changed: Callable[[], trio.Event],
) -> None:
    """Carry one direction until its end has left.

    `changed()` is an event that is set when the wire is changed.

    Raises:
        BrokenResourceError: either side broke.
        _Killed: the link breaks it here.
    """
    moved = _Moved()
    fate = Fate.GOES_ON
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_fill, source, line, moved)
        nursery.start_soon(_watch, changed, moved)
        while fate is Fate.GOES_ON:
            at = line.next_time
            with trio.move_on_at(math.inf if at is None else at):
                await moved.wait()
            taken = line.take(trio.current_time())
            fate = taken.fate
            if taken.chunk:
                await sink.send_all(taken.chunk)
                line.sent(len(taken.chunk))
                moved.tell()
        nursery.cancel_scope.cancel()
    if fate is Fate.BREAKS:
        raise _Killed
    await sink.send_eof()


class _Moved:
    """Wakes the tasks of a line when something of it has changed."""

    def __init__(self) -> None:
        self._event = trio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    def tell(self) -> None:
        event, self._event = self._event, trio.Event()
        event.set()


async def _fill(source: trio.abc.ReceiveStream, line: Line, moved: _Moved) -> None:
    chunk = b"before the first"
    while chunk:
        while not line.room:
            await moved.wait()
        chunk = bytes(await source.receive_some(line.room))
        line.put(chunk, trio.current_time())
        moved.tell()


async def _watch(changed: Callable[[], trio.Event], moved: _Moved) -> None:
    while True:
        await changed().wait()
        moved.tell()


@asynccontextmanager
async def injected(
    host: str, port: int, link: Link = NEAR, *, seed: int = 0
) -> AsyncIterator[Injector]:
    """Have an `Injector` before `host:port` that serves while the block runs."""
    injector = Injector(host, port, link, seed=seed)
    async with trio.open_nursery() as nursery:
        await nursery.start(injector.serve)
        yield injector
        nursery.cancel_scope.cancel()
