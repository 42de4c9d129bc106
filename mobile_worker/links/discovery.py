"""Peers on the same local network: what is announced, and what of it is believed.

Announced is a name, made of the network and the peer: who knows both recognises it, to
everyone else it is 32 hex digits with an address. Found addresses are hints: they are
dialled as those of a peer record are, and the session proves who is there. Anyone on
the local network may announce anything, so all is bounded and nothing lasts. No I/O
here: `lan` asks the network.
"""

import hashlib
import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from relay.keys import PeerId

__all__ = [
    "Found",
    "Hints",
    "announced_hosts",
    "is_lan_name",
    "lan_name",
    "parse_found",
]

_PREFIX: Final = b"p2pmoe lan v1\0"
_NAME_DIGITS: Final = 32
_HEX: Final = frozenset("0123456789abcdef")
_MAX_ADDRESSES: Final = 4
_MAX_FOUND: Final = 1024
_MAX_WANTED: Final = 65_536


class Found(NamedTuple):
    """A name and the `host:port` where it says it is; none if it left."""

    name: str
    addresses: tuple[str, ...]


def lan_name(network: bytes, peer: PeerId) -> str:
    """Return the name under which a peer of this network is announced."""
    return hashlib.sha256(_PREFIX + network + peer).hexdigest()[:_NAME_DIGITS]


def is_lan_name(name: str) -> bool:
    """Tell whether `lan_name` may have made this name."""
    return len(name) == _NAME_DIGITS and _HEX.issuperset(name)


def parse_found(name: str, hosts: Sequence[str], port: int | None) -> Found | None:
    """Return what an announcement says, or None if it is none of ours.

    hosts: numeric addresses; those that no other host can reach are left out.
    """
    if not is_lan_name(name):
        return None
    if port is None or not 0 < port < 65_536:
        return None
    good = announced_hosts(hosts)[:_MAX_ADDRESSES]
    return Found(name, tuple(f"{host}:{port}" for host in good)) if good else None


def announced_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return those IPv4 addresses by which others on the local network reach a host."""
    good = []
    for host in hosts[:64]:
        try:
            address = ipaddress.IPv4Address(host)
        except ValueError:
            continue
        odd = address.is_loopback or address.is_multicast or address.is_unspecified
        if not odd and not address.is_link_local and host not in good:
            good.append(host)
    return tuple(good)


class Hints:
    """Names that were found, and peers that a node would like to find."""

    def __init__(self, network: Callable[[], bytes]) -> None:
        """`network` tells the id of ours, which the relay may tell later."""
        self._network = network
        self._found: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._wanted: OrderedDict[str, PeerId] = OrderedDict()

    def of(self, peer: PeerId) -> tuple[str, ...]:
        """Return where this peer was found; from now on `heed` tells of it."""
        name = lan_name(self._network(), peer)
        self._wanted[name] = peer
        self._wanted.move_to_end(name)
        if len(self._wanted) > _MAX_WANTED:
            self._wanted.popitem(last=False)
        return self._found.get(name, ())

    def heed(self, found: Found) -> PeerId | None:
        """Take what was found or left; return the peer to be dialled now."""
        known = self._found.pop(found.name, ())
        if not found.addresses:
            return None
        self._found[found.name] = found.addresses
        if len(self._found) > _MAX_FOUND:
            self._found.popitem(last=False)
        return self._wanted.get(found.name) if found.addresses != known else None
