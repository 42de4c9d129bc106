"""Which HTTP proxy leads to a relay: a pure function of host, port and environment.

`HTTPS_PROXY`, else `ALL_PROXY`, in lower case first, as every other program reads them:
`http://[USER:PASSWORD@]HOST[:PORT]`, or `https://` for TLS to the proxy itself. What
`NO_PROXY` names (`*`, names with all below them, addresses, networks, each with or
without a port) and this host itself are reached without one.

User and password are split off here and never shown: no message quotes the variable.
"""

import base64
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from relay.endpoint import is_loopback
from relay.errors import ProxySettingError

__all__ = ["Proxy", "proxy_for"]

_VARIABLES: Final = ("HTTPS_PROXY", "ALL_PROXY")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_MAX_CHARACTERS: Final = 4096
_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?\.?|[0-9a-f:.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """An HTTP proxy that is asked to CONNECT. `variable` named it.

    `authorization`: what the header Proxy-Authorization says, a secret; or empty.
    """

    host: str
    port: int
    secure: bool
    variable: str
    authorization: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """`host:port`, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def proxy_for(host: str, port: int, environment: Mapping[str, str]) -> Proxy | None:
    """Return the proxy that leads to `host`; None where none is to be used.

    Raises:
        ProxySettingError: the variable names no HTTP proxy.
    """
    host = host.lower().rstrip(".")
    if is_loopback(host) or _is_exempt(host, port, _value(environment, "NO_PROXY")):
        return None
    for variable in _VARIABLES:
        value = _value(environment, variable)
        if value:
            return _parse(value, variable)
    return None


def _value(environment: Mapping[str, str], variable: str) -> str:
    # An empty variable in lower case switches the other off, as elsewhere.
    lower = environment.get(variable.lower())
    return (environment.get(variable, "") if lower is None else lower).strip()


def _parse(value: str, variable: str) -> Proxy:
    def broken(reason: str) -> ProxySettingError:
        return ProxySettingError(f"{variable} names no HTTP proxy: {reason}")

    if len(value) > _MAX_CHARACTERS or not (value.isascii() and value.isprintable()):
        raise broken("it is too long, or holds characters that no URL has")
    text = value if "://" in value else f"http://{value}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        # Not `from`: the message of urlsplit quotes the value.
        raise broken("its host or port cannot be read") from None
    scheme = parts.scheme.lower()
    if scheme.startswith("socks"):
        raise ProxySettingError(
            f"{variable} names a SOCKS proxy",
            advice="set HTTPS_PROXY to an HTTP proxy, or name the relay in NO_PROXY",
        )
    if scheme not in _DEFAULT_PORTS:
        raise broken("it does not begin with http://")
    host = (parts.hostname or "").lower()
    if not _HOST.fullmatch(host) or port == 0:
        raise broken("it has no host, or no port that can be used")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise broken("something follows its port")
    return Proxy(
        host=host,
        port=port or _DEFAULT_PORTS[scheme],
        secure=scheme == "https",
        variable=variable,
        authorization=_authorization(parts, variable),
    )


def _authorization(parts: SplitResult, variable: str) -> str:
    if not parts.username and not parts.password:
        return ""
    user = unquote_to_bytes(parts.username or "")
    if b":" in user:
        raise ProxySettingError(f"{variable} holds a user name with a colon")
    password = unquote_to_bytes(parts.password or "")
    return f"Basic {base64.b64encode(user + b':' + password).decode('ascii')}"


def _is_exempt(host: str, port: int, no_proxy: str) -> bool:
    return any(
        _names(entry, host, port) for entry in re.split(r"[,\s]+", no_proxy.lower())
    )


def _names(entry: str, host: str, port: int) -> bool:
    """Tell whether one entry of NO_PROXY names the host."""
    if entry == "*":
        return True
    name, wanted_port = _split_port(entry)
    if not name or wanted_port not in ("", str(port)):
        return False
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        name = name.removeprefix("*").strip(".")
        return bool(name) and (host == name or host.endswith(f".{name}"))
    try:
        return address in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return False


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""
