"""Reach a relay: TCP, then TLS, then the certificate. Not yet a word of the protocol.

A host name's addresses are raced (RFC 8305), so that a dead IPv6 route costs a quarter
of a second and not a time-out. Which certificate is good:

- a CA file is given: signed by it, for this host;
- an id is pinned: its key equals the id; or, behind a TLS front, it is signed by a
  system authority for this host (the id is then proven by the challenge);
- neither: signed by a system authority for this host.

There is no plaintext, except to a loopback address when the caller says so.
"""

import os
import socket
import ssl
from dataclasses import dataclass

import trio

from relay.endpoint import Endpoint, is_loopback
from relay.errors import (
    CertificateRefused,
    PlaintextRefused,
    RelayUnreachable,
    WrongRelayId,
)
from relay.keys import short_id
from relay.streams import TcpStream
from relay.tls import certificate_key, client_context, pinning_context

__all__ = ["Dialled", "dial"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialled:
    """An open path to a relay; `stream` runs over `transport` (or is it)."""

    stream: trio.abc.Stream
    transport: TcpStream


async def dial(endpoint: Endpoint, *, allow_plaintext: bool = False) -> Dialled:
    """Open the path to a relay. Deadlines are the caller's.

    Raises:
        PlaintextRefused: a ws:// URL, not to loopback or not allowed.
        RelayUnreachable: no TCP connection, or no TLS behind it.
        CertificateRefused: no authority we trust signed the certificate.
        WrongRelayId: the certificate is another relay's.
    """
    if not endpoint.secure:
        if not (allow_plaintext and is_loopback(endpoint.host)):
            raise PlaintextRefused(f"relay URL {endpoint.url} is not encrypted")
        transport = await _open_tcp(endpoint)
        return Dialled(stream=transport, transport=transport)
    if endpoint.relay_id is None or endpoint.ca_file is not None:
        return await _dial_tls(endpoint, client_context(endpoint.ca_file))
    return await _dial_pinned(endpoint, endpoint.relay_id)


async def _dial_pinned(endpoint: Endpoint, relay_id: bytes) -> Dialled:
    dialled = await _dial_tls(endpoint, pinning_context())
    key = None
    if isinstance(dialled.stream, trio.SSLStream):
        key = certificate_key(dialled.stream.getpeercert(binary_form=True))
    if key == relay_id:
        return dialled
    dialled.transport.close()
    if key is not None:
        raise WrongRelayId(
            f"{endpoint.address} is relay {short_id(key)}, not {short_id(relay_id)}",
            peer=endpoint.address,
        )
    # An ordinary certificate: a TLS front, if an authority vouches for it.
    try:
        return await _dial_tls(endpoint, client_context(None))
    except CertificateRefused as exc:
        raise WrongRelayId(
            f"the certificate of {endpoint.address} is neither relay "
            f"{short_id(relay_id)}'s own nor signed by a known authority",
            peer=endpoint.address,
        ) from exc


async def _dial_tls(endpoint: Endpoint, context: ssl.SSLContext) -> Dialled:
    transport = await _open_tcp(endpoint)
    stream = trio.SSLStream(
        transport, context, server_hostname=endpoint.host, https_compatible=True
    )
    try:
        await stream.do_handshake()
    except (trio.BrokenResourceError, ssl.SSLError, ssl.CertificateError) as exc:
        transport.close()
        raise _tls_error(endpoint, exc) from exc
    except BaseException:
        transport.close()
        raise
    return Dialled(stream=stream, transport=transport)


def _tls_error(
    endpoint: Endpoint, exc: BaseException
) -> CertificateRefused | RelayUnreachable:
    cause = exc.__cause__ or exc
    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = cause.verify_message.lower()
        return CertificateRefused(
            f"certificate of {endpoint.address} is not trusted: {reason}",
            peer=endpoint.address,
        )
    reason = getattr(cause, "reason", None) or str(cause) or "connection closed"
    return RelayUnreachable(
        f"no TLS at {endpoint.address}: {reason.lower().replace('_', ' ')}",
        peer=endpoint.address,
        advice="check the port: a relay with TLS must listen there",
    )


async def _open_tcp(endpoint: Endpoint) -> TcpStream:
    try:
        stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
    except OSError as exc:
        raise RelayUnreachable(
            f"relay {endpoint.address} cannot be reached: {_reason(exc)}",
            peer=endpoint.address,
        ) from exc
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
