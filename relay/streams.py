"""TCP as a trio stream, with a limit on writes that do not move, and a cheap wake-up.

`TcpStream` differs from `trio.SocketStream` in four ways: it waits for readiness
before it reads (one system call less per message); a send that fits into the kernel's
buffer returns without going through the scheduler; `send_at_once` does no more than
that, and keeps what did not fit, which leaves before anything else; and a send of which
no byte leaves for `stall_s` raises `WriteStalled`. After any failed send the stream
must be closed: part of the data may have left (faults B30).
"""

import contextlib
import socket
from typing import Final

import trio

from relay.defaults import READ_BYTES, TCP_USER_TIMEOUT_MS, WRITE_STALL_S

__all__ = ["TcpStream", "Wakeup", "WriteStalled"]

# Unsent bytes stay with us, where age and fairness can act, not in the kernel.
_NOTSENT_LOWAT_BYTES: Final = 16 * 1024


class WriteStalled(trio.BrokenResourceError):
    """The other end took no byte for too long."""


class Wakeup:
    """Wakes the one task that waits; a wake-up that comes early is remembered."""

    __slots__ = ("_is_set", "_task")

    def __init__(self) -> None:
        self._is_set = False
        self._task: trio.lowlevel.Task | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether a task waits, and nobody has woken it yet."""
        return self._task is not None

    def set(self) -> None:
        """Wake the waiting task, or the next one to wait."""
        task = self._task
        if task is None:
            self._is_set = True
        else:
            self._task = None
            trio.lowlevel.reschedule(task)

    async def wait(self) -> None:
        """Wait for `set`; return at once if it came before."""
        if self._is_set:
            self._is_set = False
            await trio.lowlevel.checkpoint()
            return
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


def _set_options(sock: socket.socket) -> None:
    wanted = (
        ("TCP_NODELAY", 1),
        ("TCP_USER_TIMEOUT", TCP_USER_TIMEOUT_MS),
        ("TCP_NOTSENT_LOWAT", _NOTSENT_LOWAT_BYTES),
    )
    for name, value in wanted:
        option = getattr(socket, name, None)
        if option is not None:
            # Not TCP (a socket pair in tests), or a system without this option.
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)


class TcpStream(trio.abc.HalfCloseableStream):
    """A connected socket; the stream owns and closes it."""

    def __init__(self, sock: socket.socket, *, stall_s: float = WRITE_STALL_S) -> None:
        sock.setblocking(False)
        _set_options(sock)
        self._sock = sock
        self._stall_s = stall_s
        self._rest = b""

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._sock.fileno() < 0

    @property
    def remote_address(self) -> str:
        """`host:port` of the other end; empty if it is gone or has none."""
        try:
            name = self._sock.getpeername()
        except OSError:
            return ""
        if not isinstance(name, tuple):
            return ""
        host = f"[{name[0]}]" if ":" in name[0] else name[0]
        return f"{host}:{name[1]}"

    async def peek(self) -> bytes:
        """Wait for bytes and return the first, which stays; b"" at the end."""
        while True:
            self._check_open()
            try:
                await trio.lowlevel.wait_readable(self._sock)
                return self._sock.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                continue
            except OSError as exc:
                raise trio.BrokenResourceError(str(exc)) from exc

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes and return them; b"" at the end of the stream."""
        n_bytes = max_bytes or READ_BYTES
        while True:
            self._check_open()
            try:
                await trio.lowlevel.wait_readable(self._sock)
                return self._sock.recv(n_bytes)
            except BlockingIOError:
                continue
            except OSError as exc:
                raise trio.BrokenResourceError(str(exc)) from exc

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Hand all of `data` to the kernel.

        Raises:
            WriteStalled: no byte left for `stall_s`.
            trio.BrokenResourceError: the connection is gone.
        """
        self._check_open()
        if self._rest:
            data, self._rest = self._rest + data, b""
        n_sent = self._send(data)
        if n_sent == len(data):
            return
        rest = memoryview(data)[n_sent:]
        deadline = trio.current_time() + self._stall_s
        while rest:
            with trio.move_on_at(deadline) as scope:
                await trio.lowlevel.wait_writable(self._sock)
            if scope.cancelled_caught:
                raise WriteStalled(f"no byte taken for {self._stall_s:g} s")
            n_sent = self._send(rest)
            if n_sent:
                rest = rest[n_sent:]
                deadline = trio.current_time() + self._stall_s

    def send_at_once(self, data: bytes) -> bool:
        """Hand over what the kernel takes now; tell whether that is all.

        If not, the rest is kept, and `send_all` must follow, be it with nothing. Not
        for use while a `send_all` is under way.

        Raises:
            trio.BrokenResourceError: the connection is gone.
        """
        self._check_open()
        if not self._rest:
            n_sent = self._send(data)
            if n_sent == len(data):
                return True
            data = data[n_sent:]
        self._rest += data
        return False

    def _send(self, data: bytes | bytearray | memoryview) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as exc:
            raise trio.BrokenResourceError(str(exc)) from exc

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the kernel takes more."""
        self._check_open()
        await trio.lowlevel.wait_writable(self._sock)

    async def send_eof(self) -> None:
        """Tell the other end that no more will come."""
        self._check_open()
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as exc:
            raise trio.BrokenResourceError(str(exc)) from exc
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close at once; whoever waits on the stream gets ClosedResourceError."""
        if not self.is_closed:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()

    async def aclose(self) -> None:
        """Close the stream."""
        self.close()
        await trio.lowlevel.checkpoint()

    def _check_open(self) -> None:
        if self.is_closed:
            raise trio.ClosedResourceError("stream is closed")
