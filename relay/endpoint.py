"""Where a relay is: `wss://host:port/relay#<64 hex digits of the relay's id>`.

The fragment pins the relay's identity and never goes over the wire. `ws://` is parsed
here but dialled only to a loopback address and only if the caller asked for it.
"""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from relay.errors import EndpointError, WeakKey
from relay.keys import PeerId, peer_id_from_hex

__all__ = ["Endpoint", "is_loopback", "parse_endpoint"]

_DEFAULT_PORTS = {"wss": 443, "ws": 80}
_CREDENTIALS = re.compile("//.*@", re.DOTALL)
_MAX_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A relay's address. `url` has no fragment; `relay_id` is its pinned identity.

    `ca_file`: PEM file of authorities that may sign this relay's certificate, besides
    the system's.
    """

    url: str
    relay_id: PeerId | None = None
    ca_file: Path | None = None

    @property
    def secure(self) -> bool:
        """Whether the connection is TLS."""
        return self.url.startswith("wss://")

    @property
    def host(self) -> str:
        """Host name or address, lower case, an IPv6 address without brackets."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """TCP port."""
        parts = urlsplit(self.url)
        return parts.port or _DEFAULT_PORTS[parts.scheme]

    @property
    def address(self) -> str:
        """`host:port`, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return (
            self.url if self.relay_id is None else f"{self.url}#{self.relay_id.hex()}"
        )


def parse_endpoint(text: str, *, ca_file: Path | None = None) -> Endpoint:
    """Parse a relay URL, with or without the pinned id as its fragment.

    Raises:
        EndpointError: scheme, host, port or id cannot be used.
    """
    shown = repr(_CREDENTIALS.sub("//...@", text))[:_MAX_SHOWN]
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as exc:
        # It may quote a part of the URL, of a password too.
        reason = "host or port cannot be read" if "@" in text else str(exc)
        raise EndpointError(f"relay URL {shown}: {reason:.100}".lower()) from exc
    if parts.scheme not in _DEFAULT_PORTS:
        raise EndpointError(f"relay URL {shown} does not begin with wss://")
    if not parts.hostname or port == 0:
        raise EndpointError(f"relay URL {shown} names no host and port")
    if not _is_host(parts.hostname):
        raise EndpointError(f"relay URL {shown} names a host that is none")
    if parts.username or parts.password or parts.query:
        raise EndpointError(f"relay URL {shown} holds a user, password or query")
    path = parts.path if parts.path not in ("", "/") else "/relay"
    relay_id = None
    if parts.fragment:
        try:
            relay_id = peer_id_from_hex(parts.fragment)
        except WeakKey as exc:
            raise EndpointError(f"relay URL {shown}: {exc}") from exc
    url = f"{parts.scheme}://{parts.netloc.lower()}{path}"
    return Endpoint(url, relay_id, ca_file)


def _is_host(name: str) -> bool:
    """Tell whether a name can be looked up at all; a label has 1 to 63 characters."""
    try:
        return name.isprintable() and " " not in name and bool(name.encode("idna"))
    except UnicodeError:
        return False


def is_loopback(host: str) -> bool:
    """Tell whether `host` is a loopback address, or the name localhost."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
