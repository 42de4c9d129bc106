"""Fronts: who is believed about a peer's address, and what they say. No I/O in here.

A front appends the address it was reached from to `X-Forwarded-For`; what stands before
that anybody can write. Read from the right, entries of trusted fronts are skipped: the
first other one is the peer's. A front on loopback is believed if the relay is told to
stand behind one, others if their network is configured.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

from relay.endpoint import is_loopback
from relay.gate import Origin

__all__ = ["ProxyNetwork", "forwarded_address", "origin_of"]

ProxyNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_MAX_HOPS: Final = 16


def origin_of(
    remote: str, trusted: Iterable[ProxyNetwork], *, behind_front: bool
) -> Origin:
    """Return whose a connection from this address is."""
    if is_loopback(remote):
        return Origin.FRONT if behind_front else Origin.LOCAL
    address = _address(remote)
    if address is not None and _is_in(address, trusted):
        return Origin.FRONT
    return Origin.PEER


def forwarded_address(
    headers: Sequence[str], trusted: Iterable[ProxyNetwork]
) -> str | None:
    """Return the peer's address by the X-Forwarded-For of a front; None: not said.

    `headers`: the header's values in their order.
    """
    believed = tuple(trusted)
    hops = ",".join(headers[-_MAX_HOPS:]).rsplit(",", _MAX_HOPS)[-_MAX_HOPS:]
    for hop in reversed(hops):
        address = _address(hop.strip())
        if address is None:
            return None
        if not address.is_loopback and not _is_in(address, believed):
            return str(address)
    return None


def _address(text: str) -> _Address | None:
    """Parse an address as fronts write it, with or without a port."""
    host = text[:64]
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _is_in(address: _Address, networks: Iterable[ProxyNetwork]) -> bool:
    return any(address in network for network in networks)
