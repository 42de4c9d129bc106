"""A TCP proxy for distances below a millisecond, which trio's timers cannot wait for.

Threads, one a direction: what is read is held for the delay, and what comes meanwhile
waits in the kernel for its turn, so that a burst is held up to twice as long. A sleep
of 0.25 ms ends some 0.06 ms late on Linux; `round_trip_s` tells what a round trip
really takes. For bandwidth, jitter and faults see `proxy`.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

__all__ = ["Nearby", "nearby", "round_trip_s"]

_READ_BYTES = 1 << 18


class Nearby:
    """A proxy to one loopback address; `one_way_s` may be changed while it runs."""

    def __init__(self, target_port: int) -> None:
        """Listen on a port of its own; connections are carried from `start` on."""
        self.one_way_s = 0.0
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []

    def start(self) -> None:
        """Accept connections in a thread."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(self._target)
                except OSError:
                    near.close()
                    continue
                for source, sink in ((near, far), (far, near)):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._sockets.append(source)
                    args = (source, sink)
                    threading.Thread(target=self._carry, args=args, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(_READ_BYTES):
                if self.one_way_s:
                    time.sleep(self.one_way_s)
                sink.sendall(chunk)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def nearby(target_port: int) -> Iterator[Nearby]:
    """Have such a proxy while the block runs."""
    proxy = Nearby(target_port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()


def round_trip_s(one_way_s: float, n_trips: int = 400) -> float:
    """Return the median round trip of a byte by way of such a proxy."""
    with socket.create_server(("127.0.0.1", 0)) as echo:

        def answer() -> None:
            peer, _ = echo.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with peer, contextlib.suppress(OSError):
                while byte := peer.recv(1):
                    peer.sendall(byte)

        threading.Thread(target=answer, daemon=True).start()
        with nearby(echo.getsockname()[1]) as proxy:
            proxy.one_way_s = one_way_s
            with socket.create_connection(("127.0.0.1", proxy.port)) as peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                took = []
                for _ in range(n_trips):
                    began = time.perf_counter()
                    peer.sendall(b"x")
                    peer.recv(1)
                    took.append(time.perf_counter() - began)
    return sorted(took)[n_trips // 2]
