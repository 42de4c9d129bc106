"""A tunnel through an HTTP proxy: CONNECT (RFC 9110 section 9.3.6), then bytes.

The request and the answer are pure functions; `open_tunnel` only writes and reads. A
proxy is believed nothing: its answer is bounded, and whatever it says the relay behind
it still has to prove its id. Each refusal is one line that names what to change.
"""

import re
from dataclasses import dataclass
from typing import Final

import trio

from relay.defaults import HTTP_TIMEOUT_S
from relay.endpoint import Endpoint
from relay.errors import EndpointError, ProtocolError, ProxyRefused
from relay.proxies import Proxy

__all__ = [
    "ConnectAnswer",
    "connect_request",
    "open_tunnel",
    "parse_answer",
    "refusal_of",
]

_MAX_HEAD_BYTES: Final = 16 * 1024
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9-]{0,19}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectAnswer:
    """What the proxy said. `schemes`: ways of authentication that it takes."""

    status: int
    schemes: tuple[str, ...] = ()


def connect_request(proxy: Proxy, endpoint: Endpoint) -> bytes:
    """Return the request that asks for a tunnel to the relay.

    Raises:
        EndpointError: the relay's host name cannot be written in ASCII.
    """
    try:
        host = endpoint.host.encode("idna").decode("ascii")
    except UnicodeError as exc:
        raise EndpointError(f"relay host {endpoint.host!r} is no host name") from exc
    address = f"[{host}]:{endpoint.port}" if ":" in host else f"{host}:{endpoint.port}"
    lines = [f"CONNECT {address} HTTP/1.1", f"Host: {address}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def parse_answer(head: bytes) -> ConnectAnswer | None:
    """Read the proxy's answer; None while its end has not come.

    Raises:
        ProtocolError: it is no HTTP, too long, or says more than it may.
    """
    if not _may_begin(head):
        raise ProtocolError("what the proxy answers is not http")
    end = head.find(b"\r\n\r\n")
    if end < 0:
        if len(head) > _MAX_HEAD_BYTES:
            raise ProtocolError("the proxy's answer is too long")
        return None
    first, *fields = head[:end].split(b"\r\n")
    match = _STATUS_LINE.fullmatch(first)
    if match is None or end > _MAX_HEAD_BYTES:
        raise ProtocolError("what the proxy answers is not http")
    status = int(match[1])
    if 200 <= status < 300 and len(head) > end + 4:
        # The client speaks first in TLS; early bytes are the proxy's own.
        raise ProtocolError("the proxy says more than that the tunnel is open")
    return ConnectAnswer(status=status, schemes=_schemes(fields))


def _may_begin(head: bytes) -> bool:
    start = b"HTTP/1."
    return head[: len(start)] == start[: len(head)]


def _schemes(fields: list[bytes]) -> tuple[str, ...]:
    found = []
    for line in fields:
        name, _, value = line.decode("latin-1").lower().partition(":")
        if name.strip() == "proxy-authenticate":
            match = _SCHEME.match(value.strip())
            if match:
                found.append(match[0])
    return tuple(dict.fromkeys(found))


def refusal_of(proxy: Proxy, endpoint: Endpoint, answer: ConnectAnswer) -> ProxyRefused:
    """Return the error that tells a person what this answer asks for."""
    status = answer.status
    if status == 407:
        reason, advice = _password_reason(proxy, answer.schemes)
    elif status in (403, 451):
        reason = f"forbids a connection to {endpoint.address}"
        advice = (
            f"ask who runs the proxy to allow CONNECT to {endpoint.address}, "
            "or name the relay in NO_PROXY"
        )
    elif status in (400, 404, 405, 501):
        reason = "does not do CONNECT"
        advice = f"name an HTTP proxy that does in {proxy.variable}"
    elif status in (502, 503, 504):
        reason = f"does not reach {endpoint.address}"
        advice = "check that the relay runs, or name it in NO_PROXY"
    else:
        reason = f"does not open a tunnel to {endpoint.address}"
        advice = f"check {proxy.variable}, or name the relay in NO_PROXY"
    return ProxyRefused(
        f"proxy {proxy.address} {reason} (HTTP {status})",
        peer=proxy.address,
        advice=advice,
        status=status,
    )


def _password_reason(proxy: Proxy, schemes: tuple[str, ...]) -> tuple[str, str]:
    if schemes and "basic" not in schemes:
        return (
            f"wants {' or '.join(schemes[:4])} authentication",
            "run a local proxy that speaks it, such as cntlm or px, and name that "
            f"in {proxy.variable}",
        )
    if proxy.authorization:
        return (
            "does not take the user and password",
            f"correct them in {proxy.variable}; / @ : # % in them are written %2F and "
            "so on",
        )
    return (
        "wants a user and password",
        f"set {proxy.variable} to http://USER:PASSWORD@{proxy.address}",
    )


async def open_tunnel(
    stream: trio.abc.Stream, proxy: Proxy, endpoint: Endpoint
) -> None:
    """Ask for a tunnel; afterwards `stream` leads to the relay.

    Raises:
        ProxyRefused: the proxy says no, nothing, or something that is not HTTP.
    """

    def refused(reason: str) -> ProxyRefused:
        return ProxyRefused(
            f"proxy {proxy.address} {reason}",
            peer=proxy.address,
            advice=f"check {proxy.variable}, or name the relay in NO_PROXY",
        )

    try:
        with trio.fail_after(HTTP_TIMEOUT_S):
            await stream.send_all(connect_request(proxy, endpoint))
            answer = await _read_answer(stream)
    except trio.TooSlowError as exc:
        raise refused("does not answer CONNECT in time") from exc
    except ProtocolError as exc:
        raise refused(f"gives no valid answer: {exc}") from exc
    except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
        raise refused("closed the connection") from exc
    if not 200 <= answer.status < 300:
        raise refusal_of(proxy, endpoint, answer)


async def _read_answer(stream: trio.abc.Stream) -> ConnectAnswer:
    head = bytearray()
    while True:
        chunk = await stream.receive_some(4096)
        if not chunk:
            raise ProtocolError("it ends before its head does")
        head += chunk
        answer = parse_answer(bytes(head))
        if answer is not None:
            return answer
