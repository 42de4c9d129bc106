"""Ask the service that runs on a folder one line, and wait for its answer.

Contract: plain and blocking, for one command. The process at the other end must be the
user's own or that of the folder's owner, where the system can tell. Nobody there is
`NobodyThere`, so that the caller may look at the folder itself; no answer in time is
`NoAnswer`: what was asked may have been done.
"""

import os
import socket
from pathlib import Path

from p2pmoe.errors import P2pmoeError
from p2pmoe.local_socket.address import socket_address
from p2pmoe.local_socket.serving import peer_uid

__all__ = ["NoAnswer", "NobodyThere", "ask_line"]

_CHUNK_BYTES = 1 << 16


class NobodyThere(P2pmoeError):
    """No process of the user's answers at the socket; says why."""


class NoAnswer(P2pmoeError):
    """The line was sent and no whole answer came; says why."""


def ask_line(folder: Path, line: bytes, *, max_bytes: int, wait_s: float) -> bytes:
    """Return the answering line, which may be longer than `max_bytes` by one read.

    Raises:
        NobodyThere: nobody is there, or it is somebody else.
        NoAnswer: it went away, was too slow, or said more than `max_bytes`.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(wait_s)
        try:
            with socket_address(folder) as address:
                client.connect(address)
            _check_owner(client, folder)
        except OSError as exc:
            raise NobodyThere(exc.strerror or str(exc)) from exc
        try:
            client.sendall(line)
            return _read_line(client, max_bytes)
        except OSError as exc:  # a time-out among them
            raise NoAnswer(str(exc)) from exc


def _check_owner(client: socket.socket, folder: Path) -> None:
    uid = peer_uid(client)
    if uid not in (None, os.geteuid(), folder.stat().st_uid):
        raise PermissionError(f"its process is of user {uid}")


def _read_line(client: socket.socket, max_bytes: int) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        part = client.recv(_CHUNK_BYTES)
        if not part:
            raise NoAnswer("it went away")
        line += part
        if len(line) > max_bytes:
            raise NoAnswer(f"its answer has over {max_bytes} bytes")
    return bytes(line)
