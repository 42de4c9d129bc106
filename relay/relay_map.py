r"""The relay map: the network's signed word on which relays it has. No I/O in here.

    map   = a statement (`relay.statements`) [1, network, version, [entry, ...]]
    entry = [url, relay id (32 B), region, weight, draining]

`version` only grows: a reader that holds a map never goes back to an older one
(`newer`). URLs are `wss://`, in canonical form; each URL and each id is named
once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from relay.endpoint import Endpoint, parse_endpoint
from relay.errors import EndpointError, ProtocolError
from relay.keys import PeerId
from relay.statements import (
    StatementKind,
    open_statement,
    peer_id_of,
    sign_statement,
)

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
_KIND: Final = StatementKind(
    name="relay map",
    domain=b"p2pmoe relay map v1\0",
    format=1,
    n_fields=2,
    max_bytes=MAX_MAP_BYTES,
    max_array_len=MAX_ENTRIES,
    max_str_len=_MAX_URL_CHARS,
)


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
    fields = (relay_map.version, entries)
    encoded = sign_statement(_KIND, relay_map.network, fields, sign)
    return replace(relay_map, encoded=encoded)


def parse_map(raw: bytes, network: PeerId | None = None) -> RelayMap:
    """Parse a map and check its signature.

    `network`: the network that it must be of. Without it the map vouches for itself
    only, and the reader must compare its `network`.

    Raises:
        ProtocolError: not exactly such a map, of another network, or not signed by its
            network.
    """
    statement = open_statement(_KIND, raw, network)
    version, entries = statement.fields
    if not isinstance(entries, list):
        raise ProtocolError("relay map without a list of relays")
    relay_map = RelayMap(
        network=statement.network,
        version=version,
        entries=tuple(_entry(values) for values in entries),
        encoded=raw,
    )
    _check(relay_map)
    return relay_map


def newer(held: RelayMap | None, found: RelayMap | None) -> RelayMap | None:
    """Return the map to go by: `found` only if its version is above that of `held`."""
    if held is None or (found is not None and found.version > held.version):
        return found
    return held


def _entry(values: object) -> RelayEntry:
    if not isinstance(values, list) or len(values) != 5:
        raise ProtocolError("relay map: an entry is not an array of 5")
    url, relay_id, region, weight, draining = values
    if not isinstance(url, str) or not isinstance(region, str):
        raise ProtocolError("relay map: a url or region is no text")
    if type(draining) is not bool:
        raise ProtocolError("relay map: draining is neither true nor false")
    return RelayEntry(url, peer_id_of(_KIND, relay_id), region, weight, draining)


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
