"""A TCP proxy that holds every byte back for a fixed time: distance, on loopback.

Each direction of each connection is a `DelayLine`. A chunk that comes at t leaves at
t + the delay of then, never before the chunk ahead of it; nothing is lost, changed or
reordered, and nothing is random. A line holds a bounded number of bytes: while it is
full the proxy reads no more, and TCP slows the sender down. The end of a stream waits
its turn like a chunk. A connection that breaks on one side is closed on the other.

The delay can be changed while connections are open, so that one network can be measured
near and far. There is no limit of bandwidth and no loss.
"""

from collections import deque
from dataclasses import dataclass
from functools import partial

import trio

__all__ = ["MAX_BYTES", "Delay", "DelayLine", "carry", "serve_delayed"]

MAX_BYTES = 1 << 20  # of a direction; 50 ms a way allow 20 MB/s
_READ_BYTES = 64 * 1024
_LOOPBACK = "127.0.0.1"
_BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


@dataclass(slots=True, kw_only=True)
class Delay:
    """How long a chunk takes one way, in seconds; shared by all of a proxy's lines."""

    one_way_s: float = 0.0


class DelayLine:
    """Chunks on their way, oldest first; b"" is the end of the stream."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Begin empty."""
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._last = float("-inf")
        self.n_bytes = 0

    @property
    def room(self) -> int:
        """Bytes that may still be put."""
        return max(0, self._max_bytes - self.n_bytes)

    @property
    def next_time(self) -> float | None:
        """When the oldest chunk leaves; None while there is none."""
        return self._waiting[0][0] if self._waiting else None

    def put(self, chunk: bytes, now: float, delay_s: float) -> None:
        """Take a chunk in; it never leaves before the one ahead of it."""
        self._last = max(self._last, now + delay_s)
        self._waiting.append((self._last, chunk))
        self.n_bytes += len(chunk)

    def take(self, now: float) -> tuple[bytes, bool]:
        """Return all that is due, and whether the stream ends after it.

        It keeps its room until `sent` says that it is gone.
        """
        due = []
        while self._waiting and self._waiting[0][0] <= now:
            due.append(self._waiting.popleft()[1])
        return b"".join(due), bool(due) and not due[-1]

    def sent(self, n_bytes: int) -> None:
        """Give back the room of bytes taken."""
        self.n_bytes -= n_bytes


async def carry(
    source: trio.abc.ReceiveStream,
    sink: trio.abc.HalfCloseableStream,
    delay: Delay,
    *,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Carry one direction until its end has left.

    Raises:
        BrokenResourceError: either side broke.
    """
    line = DelayLine(max_bytes)
    changed = trio.Event()

    def tell() -> None:
        nonlocal changed
        changed.set()
        changed = trio.Event()

    async def fill() -> None:
        while True:
            while not line.room:
                await changed.wait()
            chunk = bytes(await source.receive_some(min(line.room, _READ_BYTES)))
            line.put(chunk, trio.current_time(), delay.one_way_s)
            tell()
            if not chunk:
                return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fill)
        over = False
        while not over:
            if line.next_time is None:
                await changed.wait()
                continue
            await trio.sleep_until(line.next_time)
            due, over = line.take(trio.current_time())
            await sink.send_all(due)
            line.sent(len(due))
            tell()
        await sink.send_eof()


async def serve_delayed(
    host: str,
    port: int,
    delay: Delay,
    *,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Forward connections to `host:port` until cancelled; started with our own port."""
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            partial(
                trio.serve_tcp, partial(_forward, host, port, delay), 0, host=_LOOPBACK
            )
        )
        task_status.started(listeners[0].socket.getsockname()[1])


async def _forward(host: str, port: int, delay: Delay, near: trio.SocketStream) -> None:
    try:
        far = await trio.open_tcp_stream(host, port)
    except OSError:
        return
    async with far, trio.open_nursery() as nursery:

        async def one_way(source: trio.SocketStream, sink: trio.SocketStream) -> None:
            try:
                await carry(source, sink, delay)
            except* _BROKEN:
                nursery.cancel_scope.cancel()

        nursery.start_soon(one_way, near, far)
        nursery.start_soon(one_way, far, near)
