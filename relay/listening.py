"""Open the port that peers come to; what forbids it becomes one line with advice."""

import errno
import os
import re
import socket
from contextlib import ExitStack

import trio

from relay.errors import ListenError

__all__ = ["open_listeners", "split_address"]

_BACKLOG = 1024
_PORT = re.compile("[0-9]{1,5}")
_PRIVILEGE_ADVICE = (
    "give the service the capability (systemd: AmbientCapabilities="
    "CAP_NET_BIND_SERVICE), use authbind, or put a TLS front on the port"
)
# A wildcard may lack one of the two protocols on this host.
_ABSENT = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})


def split_address(text: str) -> tuple[str | None, int]:
    """Parse `:443`, `host:443` or `[v6]:443`; no host means all addresses.

    Raises:
        ListenError: no port, or one out of range.
    """
    host, colon, port = text.strip().rpartition(":")
    advice = "write it as :443, 127.0.0.1:8443 or [::1]:8443"
    if not colon or not _PORT.fullmatch(port) or int(port) > 65535:
        raise ListenError(f"listen address {text!r:.80} names no port", advice=advice)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ListenError(f"listen address {text!r:.80} lacks brackets", advice=advice)
    return (host or None), int(port)


async def open_listeners(host: str | None, port: int) -> list[socket.socket]:
    """Bind and listen on every address of `host` (None: all of this host).

    Port 0 takes a free one, the same for all addresses.

    Raises:
        ListenError: the port is in use, not permitted, or the address is not ours.
    """
    try:
        found = await trio.socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as exc:  # the latter of labels that are too long
        raise ListenError(
            f"listen address {host!r:.80} is not known",
            advice="use an address of this host",
        ) from exc
    listeners: list[socket.socket] = []
    absent: OSError | None = None
    with ExitStack() as opened:
        for family, _, _, _, address in found:
            bound = (address[0], port, *address[2:])
            try:
                listener = opened.enter_context(_listen(family, bound))
            except OSError as exc:
                if exc.errno in _ABSENT and host is None:
                    absent = exc
                    continue
                raise _explain(exc, str(address[0]), port) from exc
            port = port or listener.getsockname()[1]
            listeners.append(listener)
        if not listeners:
            reason = absent or OSError(errno.EADDRNOTAVAIL, "")
            raise _explain(reason, host or "any address", port)
        opened.pop_all()
    return listeners


def _listen(family: int, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        if os.name != "nt":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _explain(exc: OSError, host: str, port: int) -> ListenError:
    if exc.errno == errno.EADDRINUSE:
        return ListenError(
            f"port {port} on {host} is already in use",
            advice="stop the program that uses it, or name another port",
        )
    if exc.errno in (errno.EACCES, errno.EPERM):
        return ListenError(
            f"no permission to listen on port {port}", advice=_PRIVILEGE_ADVICE
        )
    if exc.errno == errno.EADDRNOTAVAIL:
        return ListenError(
            f"{host} is no address of this host", advice="name one that is, or none"
        )
    reason = os.strerror(exc.errno).lower() if exc.errno else str(exc)
    return ListenError(f"cannot listen on port {port} of {host}: {reason}")
