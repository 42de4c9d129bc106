"""A small HTTP server of a folder that knows Range, on loopback; a process or a thread.

    python -m tests.support.file_server FOLDER PORT [BYTES_S]

It prints its port. With BYTES_S each answer comes no faster than that, so that a test
can kill somebody in the middle of one. `requests` says what was asked for.
"""

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

__all__ = ["FileServer", "serving"]

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
_CHUNK = 1 << 16


class FileServer(ThreadingHTTPServer):
    """Serves the files of one folder by name."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0, bytes_s: float = 0.0) -> None:
        """Listen on loopback; port 0 takes any."""
        self.folder = folder
        self.bytes_s = bytes_s
        self.requests: list[tuple[str, str]] = []  # name, range
        self.n_sent = 0
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """The folder's address, with a slash behind it."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that leave."""


class _Handler(BaseHTTPRequestHandler):
    server: FileServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server, name = self.server, self.path.rpartition("/")[2]
        server.requests.append((name, self.headers.get("Range", "")))
        try:
            file = (server.folder / name).open("rb")
        except OSError:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            match = _RANGE.fullmatch(self.headers.get("Range", ""))
            first, last = (int(match[1]), int(match[2])) if match else (0, size - 1)
            last = min(last, size - 1)
            self.send_response(206 if match else 200)
            if match:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self.send_header("Content-Length", str(last - first + 1))
            self.end_headers()
            file.seek(first)
            self._send(file, last - first + 1)

    def _send(self, file: BinaryIO, n_bytes: int) -> None:
        server = self.server
        while n_bytes:
            chunk = file.read(min(n_bytes, _CHUNK))
            if server.bytes_s:
                time.sleep(len(chunk) / server.bytes_s)
            self.wfile.write(chunk)
            server.n_sent += len(chunk)
            n_bytes -= len(chunk)

    def log_message(self, form: str, *values: object) -> None:
        """Log nothing."""


@contextmanager
def serving(folder: Path, port: int = 0, bytes_s: float = 0.0) -> Iterator[FileServer]:
    """Serve a folder from a thread while the block runs."""
    with FileServer(folder, port, bytes_s) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    folder, port, *rate = sys.argv[1:]
    with FileServer(Path(folder), int(port), float(rate[0]) if rate else 0.0) as own:
        print(own.server_address[1], flush=True)
        own.serve_forever()
