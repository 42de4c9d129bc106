"""The way to a relay, as a joining peer would go it: proxy, TLS, welcome, clock.

One attempt is made, by a peer that nobody knows; what ends it is said by the check that
it belongs to, in the words that joining itself would use.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Final

import trio

from p2pmoe.doctor.findings import Finding, Verdict, fault_of
from p2pmoe.doctor.names import families, lookup
from p2pmoe.probe.measure import visitor
from p2pmoe.probe.report import EXPIRES_SOON
from relay.client import ClientSettings, RelayConnection, connect
from relay.endpoint import Endpoint
from relay.errors import (
    CertificateError,
    CertificateRefused,
    ProxyRefused,
    ProxySettingError,
    RelayError,
    TokenRefused,
    WrongRelayId,
)
from relay.greetings import DenyCode
from relay.proxies import proxy_for

__all__ = ["look_at_relay"]

_SKEW_S: Final = 60.0  # leases and certificates are about minutes and days
_SLIGHT_SKEW_S: Final = 5.0
_CHECKS: Final[tuple[tuple[type[RelayError], str], ...]] = (
    (ProxyRefused, "proxy"),
    (ProxySettingError, "proxy"),
    (CertificateRefused, "tls"),
    (CertificateError, "tls"),
    (WrongRelayId, "tls"),
    (TokenRefused, "token"),
)


async def look_at_relay(
    endpoint: Endpoint,
    token: bytes,
    wall_us: Callable[[], int],
    settings: ClientSettings,
) -> list[Finding]:
    """Return what a peer with this token meets on its way to the relay.

    Takes at most half a minute, whatever answers there.
    """
    found: list[Finding] = []
    try:
        found += await _before(endpoint, settings.environment)
        if not any(f.check == "dns" and f.verdict is Verdict.FAULT for f in found):
            found += await _join(endpoint, token, wall_us, settings)
    except RelayError as error:
        found.append(_ended(endpoint, error))
    return found


async def _before(endpoint: Endpoint, environment: Mapping[str, str]) -> list[Finding]:
    """Look at proxy and addresses."""
    proxy = proxy_for(endpoint.host, endpoint.port, environment)
    if proxy is not None:
        text = f"{proxy.variable} leads to {endpoint.host} through {proxy.address}"
        return [Finding(check="proxy", verdict=Verdict.OK, text=text)]
    text = f"none on the way to {endpoint.host}"
    named, addresses = await lookup(endpoint)
    found = [Finding(check="proxy", verdict=Verdict.OK, text=text), named]
    if addresses.ipv4 or addresses.ipv6:
        found += await families(endpoint, addresses)
    return found


async def _join(
    endpoint: Endpoint,
    token: bytes,
    wall_us: Callable[[], int],
    settings: ClientSettings,
) -> list[Finding]:
    began = trio.current_time()
    async with connect(
        endpoint, visitor(token), wall_us=wall_us, settings=settings
    ) as connection:
        took_ms = (trio.current_time() - began) * 1000
        text = f"{endpoint.address} let us in after {took_ms:.0f} ms"
        return [
            *_tls(endpoint, connection, wall_us),
            Finding(check="relay", verdict=Verdict.OK, text=text),
            _clock(endpoint, connection.welcome.skew_us / 1e6),
        ]


def _tls(
    endpoint: Endpoint, connection: RelayConnection, wall_us: Callable[[], int]
) -> list[Finding]:
    route = connection.route
    certificate = route.certificate
    if certificate is None:
        return []
    if certificate.key == connection.welcome.relay_id:
        text = f"{endpoint.address}: {route.tls_version}, the relay's own pinned key"
        return [Finding(check="tls", verdict=Verdict.OK, text=text)]
    now = dt.datetime.fromtimestamp(wall_us() / 1e6, dt.UTC)
    left = certificate.not_after - now
    text = (
        f"{endpoint.address}: {route.tls_version}, certificate of "
        f"{certificate.issuer}, good for {left.days} days"
    )
    if left < EXPIRES_SOON:
        advice = "the relay's operator has to renew it"
        return [Finding(check="tls", verdict=Verdict.WARNING, text=text, advice=advice)]
    return [Finding(check="tls", verdict=Verdict.OK, text=text)]


def _clock(endpoint: Endpoint, skew_s: float) -> Finding:
    side = "ahead of" if skew_s > 0 else "behind"
    text = f"this host's is {abs(skew_s):.1f} s {side} that of {endpoint.host}"
    if abs(skew_s) < _SLIGHT_SKEW_S:
        return Finding(check="clock", verdict=Verdict.OK, text=text)
    return Finding(
        check="clock",
        verdict=Verdict.NOTE if abs(skew_s) < _SKEW_S else Verdict.WARNING,
        text=text,
        advice="set it (`timedatectl set-ntp true`): leases and certificates have ends",
    )


def _ended(endpoint: Endpoint, error: RelayError) -> Finding:
    """Return what it means that the attempt ended so."""
    if isinstance(error, TokenRefused) and error.code == DenyCode.TOKEN_NOT_YOURS:
        return Finding(
            check="relay",
            verdict=Verdict.OK,
            text=f"{endpoint.address} answers; the token is another peer's, so only "
            "that peer can try it",
        )
    check = next((name for kind, name in _CHECKS if isinstance(error, kind)), "relay")
    return fault_of(check, error)
