"""The relay map that a node goes by: when to fetch it, and how far its relays are.

A relay tells the version of its map when we come to it, and when it gets a new one. A
map above ours is fetched from that relay: at once when we join, else spread over some
seconds, since all peers hear of it at the same moment. It is kept in memory alone.
"""

import logging
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import trio

from mobile_worker.links.homes import Candidate
from relay.client import ClientSettings
from relay.endpoint import Endpoint
from relay.errors import ProxySettingError, RelayError
from relay.keys import PeerId
from relay.map_client import fetch_map
from relay.proxies import proxy_for
from relay.relay_map import RelayMap, newer

__all__ = ["SPREAD_S", "MapWatch", "measure_trips"]

_LOG = logging.getLogger("p2pmoe.links")
SPREAD_S: Final = 30.0
_RETRY_S: Final = 10.0
_MAX_TRIES: Final = 5
_TRIP_TIMEOUT_S: Final = 2.0


class MapWatch:
    """The newest map that we know of, and its relays' round trips by candidate key."""

    def __init__(
        self,
        client: ClientSettings,
        network: Callable[[], PeerId | None],
        to_measure: Callable[[RelayMap], Sequence[Candidate]],
        changed: Callable[[], None],
    ) -> None:
        """`network` names ours; None while it is not known, and no map is believed.

        Of a new map the relays that `to_measure` names are measured before `changed`
        tells of it.
        """
        self.current: RelayMap | None = None
        self.trips_s: dict[bytes, float] = {}
        self._client = client
        self._network = network
        self._to_measure = to_measure
        self._changed = changed
        self._due: dict[Endpoint, float] = {}  # when to ask which relay
        self._asked_at: dict[Endpoint, float] = {}
        self._n_failed: dict[Endpoint, int] = {}
        self._heard = trio.Event()

    def heard(self, source: Endpoint, version: int | None) -> None:
        """Note what map a relay has; None: a new one, told to all of its peers."""
        ours = 0 if self.current is None else self.current.version
        if version is not None and version <= ours:
            return
        due = trio.current_time()
        if version is None:
            due += SPREAD_S * random.random()  # noqa: S311
            due = max(due, self._asked_at.get(source, -math.inf) + _RETRY_S)
        self._ask_at(source, due)

    def _ask_at(self, source: Endpoint, due: float) -> None:
        if due < self._due.get(source, math.inf):
            self._due[source] = due
            self._heard.set()

    async def run(self) -> None:
        """Fetch what was heard of, for ever.

        Each relay has its turn: one that tells of a map and hands out none hides
        nothing that another has.
        """
        while True:
            source = min(self._due, key=self._due.__getitem__, default=None)
            with trio.move_on_at(math.inf if source is None else self._due[source]):
                await self._heard.wait()  # perhaps of one that is due sooner
                self._heard = trio.Event()
                continue
            if source is not None:
                del self._due[source]
                self._asked_at[source] = trio.current_time()
                await self._fetch(source)

    async def _fetch(self, source: Endpoint) -> None:
        network = self._network()
        if network is None:
            return
        try:
            found = await fetch_map(source, network, self._client)
        except RelayError as exc:
            _LOG.info("no relay map: %s", exc)
            n_failed = self._n_failed.pop(source, 0) + 1
            if n_failed < _MAX_TRIES:
                self._n_failed[source] = n_failed
                self._ask_at(source, trio.current_time() + _RETRY_S * n_failed)
            return
        self._n_failed.pop(source, None)
        await self._take(found)

    async def _take(self, found: RelayMap | None) -> None:
        if found is None or newer(self.current, found) is not found:
            return
        self.trips_s |= await measure_trips(self._to_measure(found), self._client)
        self.current = found
        n_relays = len(found.entries)
        _LOG.info("relay map, version %d: %d relays", found.version, n_relays)
        self._changed()


async def measure_trips(
    candidates: Iterable[Candidate], client: ClientSettings
) -> dict[bytes, float]:
    """Return how long TCP takes to each relay that answers, by key, in seconds.

    What is reached through a proxy is not measured: that would be the proxy.
    """
    trips: dict[bytes, float] = {}

    async def measure(each: Candidate) -> None:
        host, port = each.endpoint.host, each.endpoint.port
        began = trio.current_time()
        try:
            if proxy_for(host, port, client.environment) is not None:
                return
            with trio.move_on_after(_TRIP_TIMEOUT_S):
                stream = await trio.open_tcp_stream(host, port)
                trips[each.key] = trio.current_time() - began
                await trio.aclose_forcefully(stream)
        except (OSError, ProxySettingError) as exc:
            _LOG.debug("relay %s is not measured: %s", each.endpoint.address, exc)

    async with trio.open_nursery() as nursery:
        for each in candidates:
            nursery.start_soon(measure, each)
    return trips
