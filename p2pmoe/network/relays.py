"""The operator's relay map: the file `relays.map`, and how its entries change.

Each change gives a map with the next version, signed by the network's key; the file is
replaced whole. Running relays read it at start and at SIGHUP and hand it on, so a map
has to be copied to every relay's folder, in any order: the highest version wins.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from p2pmoe.network.errors import NetworkError
from p2pmoe.network.folder import OperatorFolder, read_bounded, replace_file
from p2pmoe.network.network import Network
from relay.endpoint import parse_endpoint
from relay.errors import ProtocolError
from relay.keys import PeerId
from relay.relay_map import MAX_MAP_BYTES, RelayEntry, RelayMap, parse_map, sign_map

__all__ = [
    "RelayMapBroken",
    "RelayMapFile",
    "RelayNotInMap",
    "add_entry",
    "drain_entry",
    "read_map",
    "remove_entry",
]


class RelayMapBroken(NetworkError):
    """The file is no relay map of this network."""

    advice = "copy relays.map anew from the operator's folder, or remove it"


class RelayNotInMap(NetworkError):
    """No relay of the map has this URL or id."""

    advice = "see p2pmoe network relays list"


def read_map(path: Path, network: PeerId) -> RelayMap | None:
    """Return the network's map; None if there is no file.

    Raises:
        RelayMapBroken: the file is no map, or another network's.
        FolderUnusable: it cannot be read.
    """
    raw = read_bounded(path, MAX_MAP_BYTES)
    if raw is None:
        return None
    try:
        return parse_map(raw, network)
    except ProtocolError as exc:
        raise RelayMapBroken(f"{path}: {exc}") from exc


def add_entry(
    entries: Iterable[RelayEntry], url: str, *, region: str, weight: int
) -> tuple[RelayEntry, ...]:
    """Return the entries with this relay, in place of an older one of its URL.

    Raises:
        EndpointError: the URL cannot be used.
        NetworkError: it does not carry the relay's id, or is not wss://.
    """
    endpoint = parse_endpoint(url)
    if endpoint.relay_id is None or not endpoint.secure:
        raise NetworkError(
            f"relay URL {url!r:.300} has no relay id, or is not wss://",
            advice="write it as the relay prints it: wss://HOST:PORT/relay#RELAY_ID",
        )
    entry = RelayEntry(endpoint.url, endpoint.relay_id, region, weight)
    return (*(each for each in entries if each.url != entry.url), entry)


def remove_entry(entries: Iterable[RelayEntry], named: str) -> tuple[RelayEntry, ...]:
    """Return the entries without the one that is named.

    Raises:
        RelayNotInMap: none or several are.
    """
    entries = tuple(entries)
    found = _find(entries, named)
    return tuple(each for each in entries if each is not found)


def drain_entry(
    entries: Iterable[RelayEntry], named: str, *, draining: bool
) -> tuple[RelayEntry, ...]:
    """Return the entries with the named one draining, or no longer.

    Raises:
        RelayNotInMap: none or several are named so.
    """
    entries = tuple(entries)
    found = _find(entries, named)
    return tuple(
        replace(each, draining=draining) if each is found else each for each in entries
    )


def _find(entries: tuple[RelayEntry, ...], named: str) -> RelayEntry:
    """Find one by its URL, with or without the id, or by 8 or more digits of its id."""
    url = named.partition("#")[0]
    by_url = [each for each in entries if each.url == url]
    is_id = len(named) >= 8
    found = by_url or [
        each for each in entries if is_id and each.relay_id.hex().startswith(named)
    ]
    if len(found) != 1:
        how_many = "no relay" if not found else f"{len(found)} relays"
        raise RelayNotInMap(f"the map has {how_many} {named!r:.300}")
    return found[0]


@dataclass(slots=True)
class RelayMapFile:
    """The map in the operator's folder, with the network that signs it."""

    path: Path
    network: Network
    current: RelayMap | None

    @classmethod
    def open(cls, folder: OperatorFolder, network: Network) -> "RelayMapFile":
        """Read it; errors as of `read_map`."""
        current = read_map(folder.relay_map, network.network_id)
        return cls(folder.relay_map, network, current)

    @property
    def entries(self) -> tuple[RelayEntry, ...]:
        """The relays at present."""
        return () if self.current is None else self.current.entries

    def replace(self, entries: tuple[RelayEntry, ...]) -> RelayMap:
        """Sign and write a map of these relays, with the next version.

        The folder must have been locked since `open`: two commands at once would sign
        two maps of one version.

        Raises:
            RelayMapBroken: a value is out of range.
            FolderUnusable: the file cannot be written.
        """
        version = 1 if self.current is None else self.current.version + 1
        unsigned = RelayMap(self.network.network_id, version, entries)
        try:
            signed = sign_map(unsigned, self.network.sign)
        except ProtocolError as exc:
            raise RelayMapBroken(str(exc), advice="correct the value") from exc
        # Signed, and no secret: a service of another user reads it too.
        replace_file(self.path, signed.encoded, mode=0o644)
        self.current = signed
        return signed
