"""Ports of loopback that stay a test's own while nobody listens at them.

    with reserved_port() as port:
        ...  # a server at `port`, killed, and another at the same

Between an end and the next start another process, of the tests that run beside, may be
given the port. One that is bound here without listening is given to nobody by chance;
whoever sets SO_REUSEADDR, as all servers here do, may listen at it by its number.
"""

import contextlib
import socket
from collections.abc import Iterator

__all__ = ["reserved_port"]


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Have a free port of 127.0.0.1 for as long as the block runs."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
