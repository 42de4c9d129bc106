r"""The relay map: the network's signed word on which relays it has. No I/O in here.

    map  = body || 64 B signature by the network key over DOMAIN || body
    body = msgpack [1, network (32 B), version, [entry, ...]]
    entry = [url, relay id (32 B), region, weight, draining]

A map is believed for its signature alone, whoever hands it out, so relays, caches and
mirrors need no trust. `version` only grows: a reader that holds a map never goes back
to an older one (`newer`). URLs are `wss://`, in canonical form; each URL and each id is
named once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgpack

from relay.endpoint import Endpoint, parse_endpoint
from relay.errors import EndpointError, ProtocolError, WeakKey
from relay.keys import SIGNATURE_BYTES, PeerId, check_peer_id, short_id, verify

__all__ = [
    "MAX_ENTRIES",
    "MAX_MAP_BYTES",
    "MAX_VERSION",
    "MAX_WEIGHT",
    "RelayEntry",
    "RelayMap",
    "newer",
    "parse_map",
    "sign_map",
]

MAX_ENTRIES: Final = 64
MAX_MAP_BYTES: Final = 32 * 1024
MAX_WEIGHT: Final = 1000
MAX_VERSION: Final = 2**32 - 1
_MAX_URL_CHARS: Final = 255
_MAX_REGION_CHARS: Final = 32
_DOMAIN: Final = b"p2pmoe relay map v1\0"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class RelayEntry:
    """One relay. `weight` 1..1000 is its share of peers; none new while `draining`.

    region: where it stands, as its operator says: lower-case letters, digits and "-",
    at most 32, or empty.
    """

    url: str
    relay_id: PeerId
    region: str = ""
    weight: int = 100
    draining: bool = False

    @property
    def endpoint(self) -> Endpoint:
        """Where to reach it, its id pinned."""
        return Endpoint(self.url, self.relay_id)


@dataclass(frozen=True, slots=True)
class RelayMap:
    """The relays of a network; `encoded` is what was signed, with the signature."""

    network: PeerId
    version: int
    entries: tuple[RelayEntry, ...]
    encoded: bytes = b""


def sign_map(relay_map: RelayMap, sign: Callable[[bytes], bytes]) -> RelayMap:
    """Return the map with its bytes, signed by the network key's `sign`.

    Raises:
        ProtocolError: a value is out of range; see `parse_map`.
    """
    _check(relay_map)
    entries = [
        [entry.url, entry.relay_id, entry.region, entry.weight, entry.draining]
        for entry in relay_map.entries
    ]
    body: bytes = msgpack.packb(
        [_FORMAT, relay_map.network, relay_map.version, entries]
    )
    return RelayMap(
        network=relay_map.network,
        version=relay_map.version,
        entries=relay_map.entries,
        encoded=body + sign(_DOMAIN + body),
    )


def parse_map(raw: bytes, network: PeerId | None = None) -> RelayMap:
    """Parse a map and check its signature.

    `network`: the network that it must be of. Without it the map vouches for itself
    only, and the reader must compare its `network`.

    Raises:
        ProtocolError: not exactly such a map, of another network, or not signed by its
            network.
    """
    if not SIGNATURE_BYTES < len(raw) <= MAX_MAP_BYTES:
        raise ProtocolError(f"relay map of {len(raw)} bytes")
    body, signature = raw[:-SIGNATURE_BYTES], raw[-SIGNATURE_BYTES:]
    relay_map = _parse_body(body, raw)
    if network is not None and relay_map.network != network:
        raise ProtocolError(
            f"relay map of network {short_id(relay_map.network)}, "
            f"not {short_id(network)}"
        )
    if not verify(relay_map.network, _DOMAIN + body, signature):
        raise ProtocolError("relay map with a wrong signature")
    return relay_map


def newer(held: RelayMap | None, found: RelayMap | None) -> RelayMap | None:
    """Return the map to go by: `found` only if its version is above that of `held`."""
    if held is None or (found is not None and found.version > held.version):
        return found
    return held


def _parse_body(body: bytes, raw: bytes) -> RelayMap:
    try:
        values = msgpack.unpackb(
            body,
            max_array_len=MAX_ENTRIES,
            max_map_len=0,
            max_ext_len=0,
            max_bin_len=32,
            max_str_len=_MAX_URL_CHARS,
        )
    except (ValueError, msgpack.UnpackException) as exc:
        raise ProtocolError(f"relay map: {exc}") from exc
    if not isinstance(values, list) or len(values) != 4 or values[0] != _FORMAT:
        raise ProtocolError("relay map of an unknown format")
    _, network, version, entries = values
    if not isinstance(entries, list):
        raise ProtocolError("relay map without a list of relays")
    relay_map = RelayMap(
        network=_id(network),
        version=version,
        entries=tuple(_entry(values) for values in entries),
        encoded=raw,
    )
    _check(relay_map)
    return relay_map


def _id(raw: object) -> PeerId:
    if not isinstance(raw, bytes):
        raise ProtocolError("relay map: an id is not bytes")
    try:
        return check_peer_id(raw)
    except WeakKey as exc:
        raise ProtocolError(f"relay map: {exc}") from exc


def _entry(values: object) -> RelayEntry:
    if not isinstance(values, list) or len(values) != 5:
        raise ProtocolError("relay map: an entry is not an array of 5")
    url, relay_id, region, weight, draining = values
    if not isinstance(url, str) or not isinstance(region, str):
        raise ProtocolError("relay map: a url or region is no text")
    if type(draining) is not bool:
        raise ProtocolError("relay map: draining is neither true nor false")
    return RelayEntry(url, _id(relay_id), region, weight, draining)


def _check(relay_map: RelayMap) -> None:
    if not _is_within(relay_map.version, MAX_VERSION):
        raise ProtocolError(f"relay map of version {relay_map.version!r}")
    if len(relay_map.entries) > MAX_ENTRIES:
        raise ProtocolError(
            f"relay map of {len(relay_map.entries)} relays, above {MAX_ENTRIES}"
        )
    for entry in relay_map.entries:
        _check_entry(entry)
    _check_unique(entry.url for entry in relay_map.entries)
    _check_unique(entry.relay_id.hex() for entry in relay_map.entries)


def _check_entry(entry: RelayEntry) -> None:
    _check_url(entry.url)
    if not _is_region(entry.region):
        raise ProtocolError(f"relay map: {entry.region!r:.80} is no region")
    if not _is_within(entry.weight, MAX_WEIGHT):
        raise ProtocolError(
            f"relay map: weight {entry.weight!r} is not 1 to {MAX_WEIGHT}"
        )


def _check_url(url: str) -> None:
    if not url.isascii() or len(url) > _MAX_URL_CHARS:
        raise ProtocolError(f"relay map: {url!r:.80} is no relay URL")
    try:
        endpoint = parse_endpoint(url)
    except EndpointError as exc:
        raise ProtocolError(f"relay map: {exc}") from exc
    if not endpoint.secure or endpoint.url != url or not url.isprintable():
        raise ProtocolError(f"relay map: {url!r:.80} is not a plain wss:// URL")


def _check_unique(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ProtocolError(f"relay map names {name} twice")
        seen.add(name)


def _is_region(text: str) -> bool:
    plain = all(c.isascii() and (c.islower() or c.isdigit() or c == "-") for c in text)
    return plain and len(text) <= _MAX_REGION_CHARS


def _is_within(value: object, most: int) -> bool:
    return type(value) is int and 1 <= value <= most
