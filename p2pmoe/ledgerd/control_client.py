"""Ask a running ledger for an operation, through the socket in its folder.

Contract: plain and blocking, for one command. The process at the other end must be the
user's own or that of the folder's owner, where the system can tell. Nobody there is
`Unreachable`, so that the caller may open the folder itself. No answer in time leaves
it open whether the operation was done; it is safe to ask again.
"""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

from ledger.errors import FormatRefused, StoreBusy
from p2pmoe.errors import P2pmoeError
from p2pmoe.ledgerd.control import peer_uid
from p2pmoe.ledgerd.control_address import socket_address
from p2pmoe.ledgerd.control_lines import (
    MAX_LINE_BYTES,
    pack_request,
    parse_answer,
)

__all__ = ["Unreachable", "ask_control"]

_CHUNK_BYTES = 1 << 16


class Unreachable(P2pmoeError):
    """No ledger answers at the socket of this folder."""

    advice = "start the ledger, or stop the process that holds its folder"


def ask_control(
    folder: Path, operation: str, params: Mapping[str, object], *, wait_s: float = 60.0
) -> dict[str, object]:
    """Return the answer of the ledger that runs on a folder.

    Raises:
        Unreachable: nobody is there, or it is somebody else.
        StoreBusy: there was no answer in time; it may have been done.
        LedgerError: what the operation raised.
    """
    line = pack_request(operation, params)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(wait_s)
        try:
            with socket_address(folder) as address:
                client.connect(address)
            _check_owner(client, folder)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise Unreachable(f"no ledger answers in {folder}: {reason}") from exc
        try:
            client.sendall(line)
            answer = _read_line(client)
        except OSError as exc:  # a time-out among them
            raise _no_answer(operation, str(exc)) from exc
    if not answer:
        raise _no_answer(operation, "the ledger went away")
    return parse_answer(answer)


def _check_owner(client: socket.socket, folder: Path) -> None:
    uid = peer_uid(client)
    if uid not in (None, os.geteuid(), folder.stat().st_uid):
        raise PermissionError(f"its process is of user {uid}")


def _read_line(client: socket.socket) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        part = client.recv(_CHUNK_BYTES)
        if not part:
            return b""
        line += part
        if len(line) > MAX_LINE_BYTES:
            raise FormatRefused(f"an answer of over {MAX_LINE_BYTES} bytes")
    return bytes(line)


def _no_answer(operation: str, reason: str) -> StoreBusy:
    error = StoreBusy(f"no answer to {operation}: {reason}")
    error.advice = "It may have been done: run it again, nothing is done twice."
    return error
