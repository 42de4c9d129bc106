"""Answer lines at a socket of one's own, for commands of the same user.

Contract: a Unix socket in the service's folder, mode 0600. The process at the other end
must be the same user's, or root's; where the system can tell (SO_PEERCRED), it is
asked. A connection carries one line and its answer, and has a deadline for each.
Whoever serves holds the folder, so a socket that lies there already is of a process
that was killed, and is replaced. Where no socket can be made the service runs without
one, and says so.
"""

import contextlib
import logging
import os
import socket as plain
import struct
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import trio

from p2pmoe.local_socket.address import SOCKET_NAME, socket_address

__all__ = ["Answer", "LineServer", "bound_socket", "peer_uid"]

Answer = Callable[[bytes], Awaitable[bytes]]

_MAX_AT_ONCE = 8  # further ones wait
_MAX_WAITING = 128  # beyond these a client is told at once that nobody answers
_CHUNK_BYTES = 1 << 16
_CREDENTIALS = struct.Struct("=iii")  # pid, uid, gid


@dataclass(frozen=True, slots=True, kw_only=True)
class LineServer:
    """What is served in a folder; `answer` raises nothing.

    remedy: what to do where no socket can be made. request_s: to send a line, and to
    take its answer. is_last_word: an answer goes out even if the service ends by it.
    """

    folder: Path
    answer: Answer
    max_line_bytes: int
    log: logging.Logger
    remedy: str
    request_s: float = 10.0
    is_last_word: bool = False

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until cancelled; started once the socket is there, or cannot be."""
        with contextlib.ExitStack() as stack:
            try:
                listening = stack.enter_context(bound_socket(self.folder))
            except OSError as exc:
                reason = exc.strerror or str(exc)
                self.log.warning("no control socket: %s; %s", reason, self.remedy)
                task_status.started()
                return
            room = trio.CapacityLimiter(_MAX_AT_ONCE)

            async def handle(stream: trio.SocketStream) -> None:
                async with room:
                    await self._serve_one(stream)

            listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
            task_status.started()
            await trio.serve_listeners(handle, [listener])

    async def _serve_one(self, stream: trio.SocketStream) -> None:
        """Answer one line; whatever the client does, the service goes on."""
        async with stream:
            try:
                if peer_uid(stream.socket) not in (None, 0, os.geteuid()):
                    return
                with trio.move_on_after(self.request_s) as reading:
                    line = await self._read_line(stream)
                if reading.cancelled_caught or not line:
                    return
                answer = await self.answer(line)
                with trio.move_on_after(self.request_s, shield=self.is_last_word):
                    await stream.send_all(answer)
            except (trio.BrokenResourceError, OSError) as exc:
                self.log.debug("a control client left: %s", exc)

    async def _read_line(self, stream: trio.SocketStream) -> bytes:
        line = bytearray()
        while not line.endswith(b"\n") and len(line) <= self.max_line_bytes:
            part = await stream.receive_some(_CHUNK_BYTES)
            if not part:
                break
            line += part
        return bytes(line)


@contextlib.contextmanager
def bound_socket(folder: Path) -> Iterator[plain.socket]:
    """Bind and listen in a folder that this process holds; remove it at the end.

    Raises:
        OSError: none can be made there.
    """
    path = folder / SOCKET_NAME
    bound = plain.socket(plain.AF_UNIX, plain.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        with socket_address(folder) as address:
            bound.bind(address)
        path.chmod(0o600)  # before it listens, so that nobody came in earlier
        bound.listen(_MAX_WAITING)
        bound.setblocking(False)
        yield bound
    finally:
        bound.close()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def peer_uid(connected: plain.socket | trio.socket.SocketType) -> int | None:
    """Return the user of the process at the other end; None where it is not told."""
    option = getattr(plain, "SO_PEERCRED", None)
    if option is None:
        return None
    raw = connected.getsockopt(plain.SOL_SOCKET, option, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return int(uid)
