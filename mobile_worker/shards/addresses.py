"""Which addresses may be asked for a model's bytes; no I/O.

https of a public host, or, where that is said to be allowed, plain http on loopback:
what is read is checked against a hash, but who reads it and what is asked must not be
chosen by a stranger. So a redirect may lead to nothing that could not be named first,
and never from elsewhere to this machine; an address may hold no user name or password,
and a literal IP address that is not of the public internet is refused.
"""

import ipaddress
from urllib.parse import SplitResult, urljoin, urlsplit

__all__ = ["AddressRefused", "check_address", "is_loopback", "redirected"]

_LOCAL_NAME = "localhost"


class AddressRefused(ValueError):
    """An address that is never asked; the message begins with it."""


def check_address(url: str, *, loopback: bool = True) -> None:
    """Raise AddressRefused unless `url` may be asked; plain http only on loopback."""
    parts = _split(url)
    if _is_loopback(parts):
        if not loopback:
            raise AddressRefused(f"{url[:80]!r} is on this machine")
        return
    if parts.scheme != "https":
        raise AddressRefused(f"{url[:80]!r} is no https address")
    address = _literal(parts)
    is_odd = address is None and _looks_like_a_number(parts.hostname or "")
    if is_odd or (address is not None and not address.is_global):
        raise AddressRefused(f"{url[:80]!r} is not on the public internet")


def is_loopback(url: str) -> bool:
    """Return whether an address that was checked is on this machine."""
    return _is_loopback(_split(url))


def redirected(url: str, location: str) -> str:
    """Return where a redirect from `url` leads, checked as `check_address` does."""
    try:
        target = urljoin(url, location)
    except ValueError as exc:
        raise AddressRefused(f"{location[:80]!r} is no address") from exc
    check_address(target, loopback=is_loopback(url))
    return target


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise AddressRefused(f"{url[:80]!r} is no address") from exc
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise AddressRefused(f"{url[:80]!r} is no http address")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused(f"{url[:80]!r} holds a user name or password")
    if not url.isascii() or any(c.isspace() for c in url):
        raise AddressRefused(f"{url[:80]!r} must be ASCII without spaces")
    return parts


def _literal(
    parts: SplitResult,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(parts.hostname or "")
    except ValueError:
        return None


def _looks_like_a_number(host: str) -> bool:
    """Return whether a resolver may take a name for an address, as 0x7f.1 is one."""
    last = host.rstrip(".").rpartition(".")[2]
    return last.isdigit() or last.startswith("0x")


def _is_loopback(parts: SplitResult) -> bool:
    name = (parts.hostname or "").rstrip(".")
    if name == _LOCAL_NAME or name.endswith("." + _LOCAL_NAME):
        return True
    address = _literal(parts)
    return address is not None and address.is_loopback
