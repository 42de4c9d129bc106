"""Which relays a node is at home on: pure choice, no I/O and no clock in here.

Candidates are the relays of the network's map, or those that the node was given while
it has no map. Each node ranks them by weighted rendezvous hashing of its own id: every
node spreads over the relays by their weights, and a relay that comes or goes moves only
the peers that are to be moved. A relay further away counts a quarter of its weight for
each doubling of the round trip above 10 ms; one that drains, or that could not be
reached, comes after all others.

Source: D. Thaler, C. Ravishankar, "Using name-based mappings to increase hit rates",
1998; the weighted form: J. Schindelhauer, G. Schomaker, "Weighted distributed hash
tables", 2005.
"""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from relay.endpoint import Endpoint
from relay.keys import PeerId
from relay.relay_map import RelayMap
from relay.tokens import Role

__all__ = [
    "MAX_HOMES",
    "Candidate",
    "candidates_of",
    "choose_homes",
    "n_homes",
    "rank",
    "reachable_names",
]

MAX_HOMES: Final = 8  # of market and ledger, which everybody must find
_TWO: Final = 2
_NEAR_S: Final = 0.010
_UNKNOWN_DOUBLINGS: Final = 2
_MAX_DOUBLINGS: Final = 8
_EVERYWHERE = frozenset((Role.MARKET, Role.LEDGER))
_DOMAIN: Final = b"p2pmoe home v1\0"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A relay that may be a home.

    endpoint: where we dial it. name: its URL with its id, as records name it; not the
    same where we reach it by another way, such as the loopback of its own host.
    """

    endpoint: Endpoint
    name: str
    weight: int = 100
    draining: bool = False

    @property
    def key(self) -> bytes:
        """What it is told apart by: its id, or its URL while that is not known."""
        return self.endpoint.relay_id or self.endpoint.url.encode()


def candidates_of(
    relay_map: RelayMap | None, given: Sequence[Endpoint]
) -> tuple[Candidate, ...]:
    """Return the relays to choose from.

    Where a relay of the map was also given, it is dialled as given. A given CA file
    vouches for the relays of the map too.
    """
    if relay_map is None or not relay_map.entries:
        return tuple(Candidate(each, str(each)) for each in _distinct(given))
    as_given = {each.relay_id: each for each in reversed(given) if each.relay_id}
    ca_file = next((each.ca_file for each in given if each.ca_file), None)
    return tuple(
        Candidate(
            as_given.get(entry.relay_id, replace(entry.endpoint, ca_file=ca_file)),
            str(entry.endpoint),
            entry.weight,
            entry.draining,
        )
        for entry in relay_map.entries
    )


def rank(
    own: PeerId,
    candidates: Iterable[Candidate],
    *,
    trips_s: Mapping[bytes, float] | None = None,
    down: Collection[bytes] = (),
) -> list[Candidate]:
    """Return the candidates, the best home for this peer first.

    `trips_s` holds round trips, `down` relays that cannot be reached, both by key.
    """
    trips_s = trips_s or {}

    def order(each: Candidate) -> tuple[bool, bool, float]:
        weight = each.weight / 4.0 ** _doublings(trips_s.get(each.key))
        return each.key in down, each.draining, -_score(own, each.key, weight)

    return sorted(candidates, key=order)


def n_homes(role: Role, *, has_map: bool) -> int:
    """Return how many homes a peer of this role has; without a map everybody has two.

    Market and ledger are at home on every relay: they are the ones whom all must find.
    """
    return MAX_HOMES if has_map and role in _EVERYWHERE else _TWO


def choose_homes(
    ranked: Sequence[Candidate], n: int, at_home: Collection[bytes]
) -> tuple[Candidate, ...]:
    """Return the homes: the best `n`, those where we are at home already first."""
    best = ranked[:n]
    return tuple(sorted(best, key=lambda each: each.key not in at_home))


def reachable_names(
    names: Iterable[str], candidates: Iterable[Candidate]
) -> list[Candidate]:
    """Return which of the relays that a peer's record names may be visited.

    A peer may name anything; only relays that our own network vouches for are dialled.
    """
    wanted = set(names)
    return [each for each in candidates if each.name in wanted]


def _distinct(given: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    by_key: dict[bytes, Endpoint] = {}
    for each in given:
        by_key.setdefault(each.relay_id or each.url.encode(), each)
    return tuple(by_key.values())


def _doublings(trip_s: float | None) -> int:
    if trip_s is None:
        return _UNKNOWN_DOUBLINGS
    if trip_s < 2 * _NEAR_S:  # also zero and less, by a clock that jumps
        return 0
    if trip_s >= _NEAR_S * 2**_MAX_DOUBLINGS:
        return _MAX_DOUBLINGS
    return int(math.log2(trip_s / _NEAR_S))


def _score(own: PeerId, key: bytes, weight: float) -> float:
    digest = hashlib.sha256(_DOMAIN + own + key).digest()
    uniform = (int.from_bytes(digest[:7], "big") + 1) / (2**56 + 1)
    return -weight / math.log(uniform)
