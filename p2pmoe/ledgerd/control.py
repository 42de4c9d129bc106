"""The control socket of a running ledger: its operator's commands, and nobody else's.

Contract: a Unix socket in the ledger's folder, mode 0600. The process at the other end
must be the same user's, or root's; where the system can tell (SO_PEERCRED), it is
asked. A connection carries one request and its answer, and has a deadline for the
request. What is asked runs on the store's writer and is answered after the commit; a
client that leaves does not undo it. Whoever serves holds the folder's lock, so a socket
that lies there already is of a process that was killed, and is replaced. Where no
socket can be made the ledger runs without one, and says so.
"""

import contextlib
import logging
import os
import socket as plain
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import trio

from ledger.errors import FormatRefused, LedgerError
from ledger.store import Store
from p2pmoe.ledgerd.control_address import SOCKET_NAME, socket_address
from p2pmoe.ledgerd.control_lines import (
    MAX_LINE_BYTES,
    pack_answer,
    pack_error,
    parse_request,
)

__all__ = ["bound_socket", "peer_uid", "serve_control"]

_LOG = logging.getLogger("p2pmoe.ledgerd.control")
_REQUEST_S = 10.0  # to send a request, and to take an answer
_MAX_AT_ONCE = 8  # further ones wait
_MAX_WAITING = 128  # beyond these a client is told at once that nobody answers
_CHUNK_BYTES = 1 << 16
_CREDENTIALS = struct.Struct("=iii")  # pid, uid, gid


async def serve_control(
    store: Store, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve a store's operations until cancelled; started once the socket is there."""
    with contextlib.ExitStack() as stack:
        try:
            listening = stack.enter_context(bound_socket(store.folder.path))
        except OSError as exc:
            reason = exc.strerror or str(exc)
            _LOG.warning("no control socket: %s; stop the ledger to change it", reason)
            task_status.started()
            return
        room = trio.CapacityLimiter(_MAX_AT_ONCE)

        async def handle(stream: trio.SocketStream) -> None:
            async with room:
                await _serve_one(stream, store)

        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        task_status.started()
        await trio.serve_listeners(handle, [listener])


@contextlib.contextmanager
def bound_socket(folder: Path) -> Iterator[plain.socket]:
    """Bind and listen in a folder whose lock is held; remove the socket at the end.

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


async def _serve_one(stream: trio.SocketStream, store: Store) -> None:
    """Answer one request; whatever the client does, the service goes on."""
    async with stream:
        try:
            if peer_uid(stream.socket) not in (None, 0, os.geteuid()):
                return
            with trio.move_on_after(_REQUEST_S) as reading:
                line = await _read_line(stream)
            if reading.cancelled_caught or not line:
                return
            answer = await _answer(store, line)
            with trio.move_on_after(_REQUEST_S):
                await stream.send_all(answer)
        except (trio.BrokenResourceError, OSError) as exc:
            _LOG.debug("a control client left: %s", exc)


async def _read_line(stream: trio.SocketStream) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n") and len(line) <= MAX_LINE_BYTES:
        part = await stream.receive_some(_CHUNK_BYTES)
        if not part:
            break
        line += part
    return bytes(line)


async def _answer(store: Store, line: bytes) -> bytes:
    try:
        operation, params = parse_request(line)
        return pack_answer(await _operate(store, operation, params))
    except LedgerError as exc:
        return pack_error(exc)
    except Exception:  # noqa: BLE001  a bug in one operation ends no other
        _LOG.exception("an operation failed")
        return pack_error(FormatRefused("the ledger failed, see its log"))


async def _operate(
    store: Store, operation: str, params: Mapping[str, object]
) -> Mapping[str, object]:
    future = store.operate(operation, params)
    # Waiting is what the thread does: it may be left behind, the commit may not.
    return await trio.to_thread.run_sync(future.result, abandon_on_cancel=True)
