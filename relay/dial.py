"""Reach a relay: TCP, a proxy's tunnel, TLS, the certificate. No word of the protocol.

A host name's addresses are raced (RFC 8305), so that a dead IPv6 route costs a quarter
of a second and not a time-out; one that opens connections and then swallows them costs
three. A proxy that the environment names is asked for a tunnel (`relay.proxies`); it is
believed nothing. Which certificate is good:

- an id is pinned: its key equals the id; or, behind a TLS front, an authority vouches
  for it (the id is then proven by the challenge);
- no id: an authority vouches for it, for this host.

Authorities are the system's, and those in the file that the endpoint names, or that
`P2PMOE_CA_FILE` does in the environment.

There is no plaintext, except to a loopback address when the caller says so.
"""

import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import trio

from relay.certificates import CertificateFacts, read_certificate
from relay.endpoint import Endpoint, is_loopback
from relay.errors import (
    CertificateRefused,
    PlaintextRefused,
    ProxyRefused,
    RelayUnreachable,
    WrongRelayId,
)
from relay.keys import short_id
from relay.proxies import Proxy, proxy_for
from relay.streams import TcpStream
from relay.tls import client_context, pinning_context
from relay.tls_stream import TlsStream
from relay.tunnels import open_tunnel

__all__ = ["CA_VARIABLE", "Dialled", "Route", "dial"]

CA_VARIABLE: Final = "P2PMOE_CA_FILE"

# A route that swallows large packets lets TCP open and TLS hang; then IPv4 is tried.
_IPV6_TLS_S: Final = 3.0
_ANY_IPV4: Final = "0.0.0.0"  # noqa: S104 - the local end of a connection, no listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How the relay was reached; seconds that each step took.

    `remote`: `host:port` that TCP leads to, a proxy's if there is one. `certificate` is
    None for plaintext.
    """

    remote: str
    proxy: str = ""
    tls_version: str = ""
    certificate: CertificateFacts | None = None
    tcp_s: float = 0.0
    proxy_s: float = 0.0
    tls_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialled:
    """An open path to a relay; `stream` runs over `transport` (or is it)."""

    stream: trio.abc.Stream
    transport: TcpStream
    route: Route


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A path before TLS with the relay."""

    stream: trio.abc.Stream
    transport: TcpStream
    tcp_s: float
    proxy_s: float


async def dial(
    endpoint: Endpoint,
    *,
    allow_plaintext: bool = False,
    environment: Mapping[str, str] | None = None,
    fronts: set[str] | None = None,
) -> Dialled:
    """Open the path to a relay. Deadlines are the caller's.

    `environment` names the proxy and authorities (by default this process's). `fronts`
    is a memory that the caller keeps from one dial to the next: URLs where an authority
    vouched for a front, which then is what is looked for first, so that one handshake
    does.

    Raises:
        CertificateError: the file of authorities cannot be used.
        PlaintextRefused: a ws:// URL, not to loopback or not allowed.
        ProxySettingError: the environment names no proxy that can be used.
        RelayUnreachable: no TCP connection, or no TLS behind it (ProxyRefused: the
            proxy on the way says no).
        CertificateRefused: no authority we trust signed the certificate.
        WrongRelayId: the certificate is another relay's.
    """
    variables = os.environ if environment is None else environment
    proxy = proxy_for(endpoint.host, endpoint.port, variables)
    if not endpoint.secure:
        if not (allow_plaintext and is_loopback(endpoint.host)):
            raise PlaintextRefused(f"relay URL {endpoint.url} is not encrypted")
        opened = await _open(endpoint, None)
        route = Route(remote=opened.transport.remote_address, tcp_s=opened.tcp_s)
        return Dialled(stream=opened.stream, transport=opened.transport, route=route)
    if endpoint.ca_file is None and variables.get(CA_VARIABLE):
        endpoint = replace(endpoint, ca_file=Path(variables[CA_VARIABLE]))
    if endpoint.relay_id is None:
        return await _dial_tls(endpoint, client_context(endpoint.ca_file), proxy)
    fronts = set() if fronts is None else fronts
    if endpoint.url in fronts:
        try:
            return await _dial_tls(endpoint, client_context(endpoint.ca_file), proxy)
        except CertificateRefused:
            fronts.discard(endpoint.url)  # another certificate than the last time
    dialled = await _dial_pinned(endpoint, endpoint.relay_id, proxy)
    certificate = dialled.route.certificate
    if certificate is not None and certificate.key != endpoint.relay_id:
        fronts.add(endpoint.url)
    return dialled


async def _dial_pinned(
    endpoint: Endpoint, relay_id: bytes, proxy: Proxy | None
) -> Dialled:
    dialled = await _dial_tls(endpoint, pinning_context(), proxy)
    certificate = dialled.route.certificate
    key = None if certificate is None else certificate.key
    if key == relay_id:
        return dialled
    dialled.transport.close()
    if key is not None:
        raise WrongRelayId(
            f"{endpoint.address} is relay {short_id(key)}, not {short_id(relay_id)}",
            peer=endpoint.address,
        )
    # An ordinary certificate: a TLS front, if an authority vouches for it.
    authorities = client_context(endpoint.ca_file)
    try:
        return await _dial_tls(endpoint, authorities, proxy)
    except CertificateRefused as exc:
        raise _unvouched(endpoint, relay_id, certificate, exc) from exc


def _unvouched(
    endpoint: Endpoint,
    relay_id: bytes,
    certificate: CertificateFacts | None,
    refused: CertificateRefused,
) -> WrongRelayId:
    """Return the error for a certificate that is neither the relay's nor good."""
    issuer = f" (issued by {certificate.issuer!r})" if certificate else ""
    return WrongRelayId(
        f"the certificate of {endpoint.address} is neither relay "
        f"{short_id(relay_id)}'s own nor signed by a known authority{issuer}: "
        f"{str(refused).rpartition(': ')[2]}",
        peer=endpoint.address,
        advice="if a proxy here inspects TLS, or the authority is your own, name its "
        "file with --ca or P2PMOE_CA_FILE; else take the URL anew from the operator",
    )


async def _dial_tls(
    endpoint: Endpoint, context: ssl.SSLContext, proxy: Proxy | None
) -> Dialled:
    opened = await _open(endpoint, proxy)
    is_ipv6 = proxy is None and opened.transport.remote_address.startswith("[")
    if is_ipv6 and ":" not in endpoint.host:
        with trio.move_on_after(_IPV6_TLS_S):
            return await _handshake(endpoint, context, opened, proxy)
        opened = await _open_by_ipv4(endpoint)
    return await _handshake(endpoint, context, opened, proxy)


async def _open_by_ipv4(endpoint: Endpoint) -> _Opened:
    try:
        return await _open(endpoint, None, local=_ANY_IPV4)
    except RelayUnreachable as exc:
        raise RelayUnreachable(
            f"no TLS at {endpoint.address} within {_IPV6_TLS_S:g} s, none by IPv4",
            peer=endpoint.address,
            advice="the IPv6 route there swallows packets: lower this host's MTU, or "
            "see to an IPv4 address for the relay",
        ) from exc


async def _handshake(
    endpoint: Endpoint, context: ssl.SSLContext, opened: _Opened, proxy: Proxy | None
) -> Dialled:
    began = trio.current_time()
    stream = TlsStream(opened.stream, context, server_hostname=endpoint.host)
    try:
        await stream.do_handshake()
    except (trio.BrokenResourceError, ssl.SSLError, ssl.CertificateError) as exc:
        opened.transport.close()
        raise _tls_error(endpoint, exc) from exc
    except BaseException:
        opened.transport.close()
        raise
    route = Route(
        remote=opened.transport.remote_address,
        proxy=proxy.address if proxy else "",
        tls_version=stream.version() or "",
        certificate=read_certificate(stream.peer_certificate()),
        tcp_s=opened.tcp_s,
        proxy_s=opened.proxy_s,
        tls_s=trio.current_time() - began,
    )
    return Dialled(stream=stream, transport=opened.transport, route=route)


_CERTIFICATE_ADVICE: Final = {
    "certificate has expired": "the relay's operator has to renew it; or this host's "
    "clock is wrong",
    "certificate is not yet valid": "check this host's clock",
    "hostname mismatch": "use the host name that the certificate is for",
    "ip address mismatch": "use the host name that the certificate is for",
}


def _tls_error(
    endpoint: Endpoint, exc: BaseException
) -> CertificateRefused | RelayUnreachable:
    cause = exc.__cause__ or exc
    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = cause.verify_message.lower()
        advice = next(
            (a for start, a in _CERTIFICATE_ADVICE.items() if reason.startswith(start)),
            "",
        )
        return CertificateRefused(
            f"certificate of {endpoint.address} is not trusted: {reason}",
            peer=endpoint.address,
            advice=advice,
        )
    reason = getattr(cause, "reason", None) or str(cause) or "connection closed"
    reason = reason.lower().replace("_", " ")
    if "application protocol" in reason:
        return RelayUnreachable(
            f"{endpoint.address} speaks http/2 alone",
            peer=endpoint.address,
            advice="let the front or proxy offer HTTP/1.1 (ALPN http/1.1), which "
            "WebSocket upgrades need",
        )
    return RelayUnreachable(
        f"no TLS at {endpoint.address}: {reason}",
        peer=endpoint.address,
        advice="check the port: a relay with TLS must listen there",
    )


async def _open(
    endpoint: Endpoint, proxy: Proxy | None, *, local: str | None = None
) -> _Opened:
    """Open TCP to the relay, or a tunnel to it through the proxy."""
    began = trio.current_time()
    if proxy is None:
        transport = await _open_tcp(endpoint, local)
        return _Opened(
            stream=transport,
            transport=transport,
            tcp_s=trio.current_time() - began,
            proxy_s=0.0,
        )
    transport = await _reach_proxy(proxy)
    reached = trio.current_time()
    try:
        stream = await _tls_to_proxy(transport, proxy, endpoint)
        await open_tunnel(stream, proxy, endpoint)
    except BaseException:
        transport.close()
        raise
    return _Opened(
        stream=stream,
        transport=transport,
        tcp_s=reached - began,
        proxy_s=trio.current_time() - reached,
    )


async def _reach_proxy(proxy: Proxy) -> TcpStream:
    try:
        return await _connect(proxy.host, proxy.port, None)
    except OSError as exc:
        raise ProxyRefused(
            f"proxy {proxy.address} cannot be reached: {_reason(exc)}",
            peer=proxy.address,
            advice=f"check {proxy.variable}, or name the relay in NO_PROXY",
        ) from exc


async def _tls_to_proxy(
    transport: TcpStream, proxy: Proxy, endpoint: Endpoint
) -> trio.abc.Stream:
    if not proxy.secure:
        return transport
    stream = trio.SSLStream(
        transport,
        client_context(endpoint.ca_file),
        server_hostname=proxy.host,
        https_compatible=True,
    )
    try:
        await stream.do_handshake()
    except (trio.BrokenResourceError, ssl.SSLError, ssl.CertificateError) as exc:
        cause = exc.__cause__ or exc
        reason = getattr(cause, "verify_message", "") or "no TLS there"
        raise ProxyRefused(
            f"no encrypted connection to proxy {proxy.address}: {reason.lower()}",
            peer=proxy.address,
            advice=f"write http:// in {proxy.variable} if the proxy speaks no TLS, or "
            "name its authority's file with --ca",
        ) from exc
    return stream


async def _open_tcp(endpoint: Endpoint, local: str | None) -> TcpStream:
    try:
        return await _connect(endpoint.host, endpoint.port, local)
    except OSError as exc:
        raise RelayUnreachable(
            f"relay {endpoint.address} cannot be reached: {_reason(exc)}",
            peer=endpoint.address,
        ) from exc


async def _connect(host: str, port: int, local: str | None) -> TcpStream:
    try:
        stream = await trio.open_tcp_stream(host, port, local_address=local)
    except UnicodeError as exc:  # a label of the name is empty or too long
        raise socket.gaierror(socket.EAI_NONAME, "no host name") from exc
    return TcpStream(socket.socket(fileno=stream.socket.detach()))


def _reason(exc: OSError) -> str:
    # trio reports the failures of all addresses as one error with a group behind it.
    cause: BaseException | None = exc.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    for error in (cause, exc):
        if isinstance(error, socket.gaierror):
            return "the host name is not known"
        if isinstance(error, OSError) and error.errno:
            return os.strerror(error.errno).lower()
    return str(exc).lower()
