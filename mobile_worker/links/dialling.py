"""How direct links come about: listening, accepting, dialling.

Nothing here decides whom to trust: a link is handed on with the id that the other end
claims, and the session proves it or the link is closed.
"""

import contextlib
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import trio

from mobile_worker.errors import LinkLost, ListenError
from mobile_worker.links.direct import greet, welcome
from relay.keys import PeerId, short_id

__all__ = [
    "accept_links",
    "addresses_of",
    "dial_any",
    "may_dial",
    "open_listener",
    "split_address",
]

_LOG = logging.getLogger("p2pmoe.links")
_CONNECT_TIMEOUT_S = 5.0
_MAX_GREETINGS = 64
_MAX_RESOLVED = 4
_MAX_RESOLVERS = 8
_FIRST_FREE_PORT = 1024
_OPEN_PORTS = frozenset((80, 443))
_resolvers: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("names")
_Found: TypeAlias = tuple[int, int, int, str, Any]  # as getaddrinfo has it


def split_address(address: str) -> tuple[str, int]:
    """Split `host:port` or `[v6]:port`.

    Raises:
        ListenError: it is neither.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ListenError(
            f"no such address: {address!r}", advice="Write HOST:PORT, as 0.0.0.0:7400"
        )
    return host.strip("[]"), int(port)


async def open_listener(address: str) -> list[trio.SocketListener]:
    """Listen on `host:port`; port 0 takes any.

    Raises:
        ListenError: the address cannot be parsed or opened.
    """
    host, port = split_address(address)
    try:
        return await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ListenError(
            f"cannot listen on {address}: {reason}",
            advice="Choose another port, or port 0 for any free one",
        ) from error


def addresses_of(
    listeners: Iterable[trio.SocketListener], observed: str
) -> tuple[str, ...]:
    """Return the `host:port` to tell others.

    A listener on all addresses is reachable where the relay sees us, as far as we know;
    `observed` is that `host:port`, or empty.
    """
    found = []
    for listener in listeners:
        host, port = listener.socket.getsockname()[:2]
        if ipaddress.ip_address(host.partition("%")[0]).is_unspecified:
            host = observed.rpartition(":")[0].strip("[]")
        if host:
            name = f"[{host}]" if ":" in host else host
            found.append(f"{name}:{port}")
    return tuple(dict.fromkeys(found))


async def accept_links(
    listeners: list[trio.SocketListener],
    own: PeerId,
    take: Callable[[trio.SocketStream, PeerId], None],
) -> None:
    """Accept and greet for ever; `take` gets each connection with the id it claims."""
    greetings = trio.CapacityLimiter(_MAX_GREETINGS)

    async def handle(stream: trio.SocketStream) -> None:
        if not greetings.available_tokens:
            await trio.aclose_forcefully(stream)
            return
        try:
            async with greetings:
                peer = await welcome(stream, own)
        except LinkLost as error:
            _LOG.debug("a direct link was not taken: %s", error)
            await trio.aclose_forcefully(stream)
        else:
            take(stream, peer)

    await trio.serve_listeners(handle, listeners)


async def dial_any(
    addresses: Iterable[str], own: PeerId, wanted: PeerId, *, is_local: bool
) -> trio.SocketStream | None:
    """Return a greeted connection to the first address where the peer answers.

    The addresses are whatever the peer says: see `may_dial`, and for `is_local`.
    """
    for address in addresses:
        stream = None
        try:
            with trio.fail_after(_CONNECT_TIMEOUT_S):
                stream = await _connect(address, is_local=is_local)
            await greet(stream, own, wanted)
        except (ListenError, OSError, trio.TooSlowError, LinkLost) as error:
            _LOG.debug("no direct link to %s: %s", short_id(wanted), error)
            if stream is not None:
                await trio.aclose_forcefully(stream)
        else:
            return stream
    return None


def may_dial(ip: str, port: int, *, is_local: bool) -> bool:
    """Tell whether a peer's word is enough to connect to an address.

    A peer may name any. What only this host or this link can reach is none of its
    business, unless the whole network is on this host (`is_local`), and no peer takes
    links where other services are expected.
    """
    try:
        address = ipaddress.ip_address(ip.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    if address.is_loopback:
        return is_local and port >= _FIRST_FREE_PORT
    odd = address.is_link_local or address.is_multicast or address.is_unspecified
    return not odd and (port >= _FIRST_FREE_PORT or port in _OPEN_PORTS)


async def _look_up(host: str, port: int) -> Sequence[_Found]:
    """Return the socket addresses of a host; of a numeric one at once.

    Names are looked up in a few threads of their own: one that a peer made up may take
    its thread for half a minute, and other work of this process needs threads too.
    """

    def look_up(flags: int = 0) -> Sequence[_Found]:
        return socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, flags=flags)

    with contextlib.suppress(socket.gaierror):
        return look_up(socket.AI_NUMERICHOST)
    try:
        resolvers = _resolvers.get()
    except LookupError:
        resolvers = trio.CapacityLimiter(_MAX_RESOLVERS)
        _resolvers.set(resolvers)
    return await trio.to_thread.run_sync(
        look_up, abandon_on_cancel=True, limiter=resolvers
    )


async def _connect(address: str, *, is_local: bool) -> trio.SocketStream:
    host, port = split_address(address)
    try:
        found = await _look_up(host, port)
    except (UnicodeError, ValueError) as error:
        raise LinkLost("a host name that is none") from error
    for *_, sockaddr in found[:_MAX_RESOLVED]:
        if may_dial(str(sockaddr[0]), port, is_local=is_local):
            return await trio.open_tcp_stream(str(sockaddr[0]), port)
    raise LinkLost("an address that no peer is dialled at")
