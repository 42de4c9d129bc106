"""Keeps a node at home on its relays: which connections there are, and for how long.

Every home stays connected, so that losing one costs nothing. A new home is reached
before an old one is left (make before break), and the old one is kept some seconds more
for what is under way. Besides the homes there are visits: connections to relays where
only a peer that we speak with is at home; they end after 120 s without a packet.

The map comes from the relays, whenever one tells of a version above ours, and is
believed for the network's signature; see `relay.relay_map`.
"""

import logging
from dataclasses import dataclass, replace
from typing import Final

import trio

from mobile_worker.clock import Clock
from mobile_worker.links.homes import (
    Candidate,
    candidates_of,
    choose_homes,
    n_homes,
    rank,
    reachable_names,
)
from mobile_worker.links.homes_map import MapWatch
from mobile_worker.links.node import NodeSettings
from mobile_worker.links.paths import PeerState
from mobile_worker.links.presence import NO_NETWORK, Presence
from mobile_worker.links.relay import RelayLink, RelaySettings, StartError
from mobile_worker.links.relay_side import RETURN_S, RelayNews, RelaySide
from mobile_worker.links.switchboard import Switchboard
from relay.client import ClientSettings
from relay.handshake import Credentials
from relay.keys import PeerId
from relay.relay_map import RelayMap

__all__ = ["HomesKeeper"]

_LOG = logging.getLogger("p2pmoe.links")
VISIT_S: Final = 120.0
MAX_VISITS: Final = 8
LEAVE_S: Final = 15.0  # so long an old home is kept after the new ones are reached
DOWN_S: Final = 30.0  # a home that is away for so long is replaced, if there is another
_RETRY_S: Final = 300.0  # and is tried again after this
_LOOK_S: Final = 2.0
_FIRST_AT_ONCE: Final = 2
_MEASURED: Final = 8  # relays of a map, at most


@dataclass(slots=True, eq=False)
class _Kept:
    """A relay that we are connected to, or try to be."""

    candidate: Candidate
    link: RelayLink
    visiting: bool
    since: float
    down_since: float | None
    was_up: bool = False
    leave_at: float | None = None
    n_carried: int = 0
    carried_at: float = 0.0


class HomesKeeper:
    """The relay links of one node."""

    _nursery: trio.Nursery  # from `start` on

    def __init__(
        self,
        settings: NodeSettings,
        client: ClientSettings,
        presence: Presence,
        switchboard: Switchboard,
        clock: Clock,
    ) -> None:
        identity = settings.identity
        self._credentials = Credentials(
            peer_id=identity.peer_id,
            sign=identity.sign,
            role=settings.role,
            token=settings.token,
        )
        self._settings = settings
        self._client = client
        self._presence = presence
        self._board = switchboard
        self._clock = clock
        self._kept: dict[bytes, _Kept] = {}
        self._down_until: dict[bytes, float] = {}
        self._draining: set[bytes] = set()
        self._wake = trio.Event()
        self._map = MapWatch(client, self._network, self._to_measure, self._map_changed)
        self.side = RelaySide(switchboard, presence, clock, self._news)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The relays to choose from."""
        return self._candidates_of(self._map.current)

    def _candidates_of(self, relay_map: RelayMap | None) -> tuple[Candidate, ...]:
        found = candidates_of(relay_map, self._settings.endpoints)
        return tuple(
            replace(each, draining=each.draining or each.key in self._draining)
            for each in found
        )

    async def start(self, nursery: trio.Nursery) -> None:
        """Reach one of the relays that we were given; go on with others beside.

        Raises:
            RelayError: none can be reached; the reason of the first is given.
            RecordError: that one is of another network.
        """
        self._nursery = nursery
        candidates = self._ranked()
        errors: dict[bytes, StartError] = {}
        for at in range(0, len(candidates), _FIRST_AT_ONCE):
            batch = candidates[at : at + _FIRST_AT_ONCE]
            failed = await self._try(batch)
            if len(failed) < len(batch):
                nursery.start_soon(self._run)
                return
            errors |= failed
            for each in batch:
                self._stop(each.key)
        raise next(errors[each.key] for each in self.candidates if each.key in errors)

    async def _try(self, batch: list[Candidate]) -> dict[bytes, StartError]:
        """Start links; wait until one is up, or none can be."""
        errors: dict[bytes, StartError] = {}
        known = trio.Event()

        async def first(kept: _Kept) -> None:
            error = await self._nursery.start(kept.link.run)
            if error is not None:
                errors[kept.candidate.key] = error
            if error is None or len(errors) == len(batch):
                known.set()

        for candidate in batch:
            self._nursery.start_soon(first, self._add(candidate, visiting=False))
        await known.wait()
        return errors

    def seek(self, peer: PeerId, state: PeerState) -> bool:
        """Look for a peer at a home of its own that is none of ours; tell whether."""
        record = state.session.record
        if record is None or self._board.is_closed:
            return False
        for candidate in reachable_names(record.relays, self.candidates):
            kept = self._kept.get(candidate.key)
            if kept is None and candidate.key not in self._down_until:
                kept = self._visit(candidate)
            if kept is not None and not kept.link.up and not kept.was_up:
                state.at(kept.link).held_until = self._clock.monotonic() + RETURN_S
                self._board.attend(peer, state)
                return True
        return False

    def _visit(self, candidate: Candidate) -> _Kept | None:
        visits = [kept for kept in self._kept.values() if kept.visiting]
        if len(visits) >= MAX_VISITS:
            return None
        _LOG.info("visiting relay %s", candidate.endpoint.address)
        return self._start(candidate, visiting=True)

    def _start(self, candidate: Candidate, *, visiting: bool) -> _Kept:
        kept = self._add(candidate, visiting=visiting)
        self._nursery.start_soon(kept.link.run)
        return kept

    def _ranked(self) -> list[Candidate]:
        now = self._clock.monotonic()
        self._down_until = {k: t for k, t in self._down_until.items() if t > now}
        return rank(
            self._presence.own.identity.peer_id,
            self.candidates,
            trips_s=self._map.trips_s | self._trips(),
            down=self._down_until,
        )

    def _trips(self) -> dict[bytes, float]:
        return {
            key: kept.link.round_trip_s
            for key, kept in self._kept.items()
            if kept.link.round_trip_s is not None
        }

    def _add(self, candidate: Candidate, *, visiting: bool) -> _Kept:
        now = self._clock.monotonic()
        settings = RelaySettings(
            endpoint=candidate.endpoint,
            credentials=self._credentials,
            client=self._client,
        )
        link = RelayLink(settings, self.side, self._clock)
        kept = _Kept(candidate, link, visiting, now, now, carried_at=now)
        self._kept[candidate.key] = kept
        self._order()
        return kept

    def _stop(self, key: bytes) -> None:
        kept = self._kept.pop(key)
        self._order()
        kept.link.stop()
        self.side.relay_gone(kept.link)

    def _order(self) -> None:
        """Give the switchboard its relays: homes first, as they are ranked."""
        kept = sorted(self._kept.values(), key=lambda each: (each.visiting, each.since))
        self._board.relays = tuple(each.link for each in kept)

    def _news(self, relay: RelayLink, news: RelayNews, map_version: int) -> None:
        """Hear of a map, or that a relay drains."""
        if news is RelayNews.DRAINING:
            self._draining |= {
                k for k, kept in self._kept.items() if kept.link is relay
            }
        is_joining = news is RelayNews.WELCOME
        self._map.heard(relay.endpoint, map_version if is_joining else None)
        self._wake.set()

    def _network(self) -> PeerId | None:
        network = self._presence.own.network
        return None if network == NO_NETWORK else PeerId(network)

    def _to_measure(self, relay_map: RelayMap) -> list[Candidate]:
        """Name the relays whose distance matters and is not known."""
        candidates = self._candidates_of(relay_map)
        if len(candidates) <= n_homes(self._settings.role, has_map=True):
            return []
        first = rank(self._presence.own.identity.peer_id, candidates)[:_MEASURED]
        return [each for each in first if each.key not in self._trips()]

    def _map_changed(self) -> None:
        self._draining.clear()  # the map says it
        self._wake.set()

    async def _run(self) -> None:
        self._nursery.start_soon(self._map.run)
        while True:
            self.settle()
            with trio.move_on_after(_LOOK_S):
                await self._wake.wait()
            self._wake = trio.Event()

    def settle(self) -> None:
        """Reach the homes there should be, leave others, end visits that are over."""
        now = self._clock.monotonic()
        self._note_losses(now)
        has_map = self._map.current is not None
        up = {k for k, kept in self._kept.items() if kept.link.up}
        n = n_homes(self._settings.role, has_map=has_map)
        homes = choose_homes(self._ranked(), n, up)
        for home in homes:
            kept = self._kept.get(home.key)
            if kept is None:
                self._start(home, visiting=False)
            else:
                kept.candidate, kept.visiting, kept.leave_at = home, False, None
        wanted = {home.key for home in homes}
        self._leave_others(wanted, now, all_up=wanted <= up)
        self._order()
        if all(self._kept[key].was_up for key in wanted):
            names = tuple(home.name for home in homes)
            if self._presence.set_relays(names):
                self.side.our_record_changed()

    def _note_losses(self, now: float) -> None:
        for key, kept in self._kept.items():
            if kept.link.up:
                kept.was_up, kept.down_since = True, None
                self._down_until.pop(key, None)
            elif kept.down_since is None:
                kept.down_since = now
            elif now - kept.down_since > DOWN_S:
                self._down_until.setdefault(key, now + _RETRY_S)

    def _leave_others(self, wanted: set[bytes], now: float, *, all_up: bool) -> None:
        for key in self._kept.keys() - wanted:
            kept = self._kept[key]
            if kept.link.n_carried != kept.n_carried:
                kept.n_carried, kept.carried_at = kept.link.n_carried, now
            if kept.visiting:
                is_over = now - kept.carried_at > VISIT_S or key in self._down_until
            elif not kept.link.up:
                is_over = True
            elif not all_up:
                is_over, kept.leave_at = False, None
            else:
                kept.leave_at = kept.leave_at or now + LEAVE_S
                is_over = now >= kept.leave_at
            if is_over:
                _LOG.info("leaving relay %s", kept.candidate.endpoint.address)
                self._stop(key)
