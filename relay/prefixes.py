"""From which network a peer comes, as coarse as a market needs it. No I/O in here.

A prefix is an IPv4 /24 or an IPv6 /48, as text: one home, one office, one carrier's
exit. What is not an address of the internet at large (loopback, private networks, a
name) has none: a relay cannot tell such peers apart.

    packed   u8 kind (0 none, 4, 6), the first 6 bytes of the address, zeros behind
"""

import ipaddress
from typing import Final

from relay.errors import ProtocolError

__all__ = ["PACKED_PREFIX_BYTES", "network_prefix", "pack_prefix", "unpack_prefix"]

PACKED_PREFIX_BYTES: Final = 7
_BITS: Final = {4: 24, 6: 48}
_LENGTHS: Final = {4: 4, 6: 16}


def network_prefix(address: str) -> str:
    """Return the prefix of an IP address, such as `203.0.113.0/24`; "" for none."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if not parsed.is_global:
        return ""
    network = ipaddress.ip_network((parsed, _BITS[parsed.version]), strict=False)
    return str(network)


def pack_prefix(prefix: str) -> bytes:
    """Return the 7 bytes of what `network_prefix` returned."""
    if not prefix:
        return bytes(PACKED_PREFIX_BYTES)
    network = ipaddress.ip_network(prefix)
    head = network.network_address.packed[: _BITS[network.version] // 8]
    return bytes([network.version]) + head.ljust(PACKED_PREFIX_BYTES - 1, b"\0")


def unpack_prefix(packed: bytes) -> str:
    """Return the prefix of its 7 bytes.

    Raises:
        ProtocolError: no `pack_prefix` makes such bytes.
    """
    kind, prefix = packed[0], ""
    if kind in _BITS:
        head = packed[1 : 1 + _BITS[kind] // 8]
        network = ipaddress.ip_address(head.ljust(_LENGTHS[kind], b"\0"))
        prefix = f"{network}/{_BITS[kind]}"
    elif kind:
        raise ProtocolError(f"a network prefix of kind {kind}")
    if pack_prefix(prefix) != packed:
        raise ProtocolError("a network prefix with bytes behind it")
    return prefix
