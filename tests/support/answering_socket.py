"""A control socket whose other end says what a test tells it."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

__all__ = ["answering", "listening_on"]

_HANG_S = 60.0


@contextlib.contextmanager
def listening_on(folder: Path) -> Iterator[socket.socket]:
    """Listen in a folder as a service does."""
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(_HANG_S)
        server.bind(str(folder / "control.sock"))
        server.listen(1)
        yield server


def answering(server: socket.socket, *parts: bytes) -> threading.Thread:
    """Answer the first client with these parts, then close."""

    def serve() -> None:
        connected, _ = server.accept()
        with connected:
            connected.recv(1 << 16)
            for part in parts:
                connected.sendall(part)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread
