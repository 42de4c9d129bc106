"""Probes: which paths work both ways, how long they take, which one just died.

A sealed probe goes out by a path and its answer must come back by the same path: then
both directions work and the peer's keys are at the other end. That is how a direct link
is proven, how it stays alive when it is quiet, how paths are compared while the peer is
in use, and how a path under load is found dead: something went out, no sign of life
came for a quarter of a second, and the probe that asks is not answered in time either.
Then the path is doubted, within a second of the lost probe, and another carries on.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from mobile_worker.clock import Clock
from mobile_worker.links.direct import DirectLink
from mobile_worker.links.link import Link
from mobile_worker.links.meter import Meter
from mobile_worker.links.paths import PeerState, Way, prefer_proven, reconsider
from mobile_worker.session.packets import Packet
from relay.keys import PeerId

if TYPE_CHECKING:
    from mobile_worker.links.relay import RelayLink

__all__ = ["Prober"]

QUIET_S: Final = 5.0  # after this a direct link is probed
DEAD_S: Final = 15.0  # after this it is closed
UNPROVEN_S: Final = 10.0  # so long it may take to be proven
SILENT_S: Final = 0.25  # after this a path in use that should answer is probed
IN_USE_S: Final = 10.0  # so long after it was used a peer's paths are measured
_MEASURE_S: Final = 2.0  # each path of a peer in use
_MEASURE_IDLE_RELAY_S: Final = 4.0  # but a relay that is not: of many peers
_PROVE_S: Final = 2.5


class Prober:
    """Sends the probes of one node and judges its paths by them."""

    def __init__(
        self,
        put: Callable[[Link, PeerId, bytes], None],
        random_bytes: Callable[[int], bytes],
        clock: Clock,
    ) -> None:
        """`put` sends a packet by a link, in the class that is the packet's."""
        self._put = put
        self._random_bytes = random_bytes
        self._clock = clock

    def prove(self, link: DirectLink, state: PeerState) -> None:
        """Probe a direct link now, if there are keys."""
        self._probe(link, link.peer, link.meter, state)

    def answered(
        self,
        link: Link,
        state: PeerState,
        token: int,
        relays: "Sequence[RelayLink]",
    ) -> bool:
        """Take the answer to a probe; tell whether a direct link is proven by it."""
        ways: list[Way] = [*state.links, *relays]
        way = next((way for way in ways if way is link), None)
        meter = None if way is None else state.meter_at(way)
        if way is None or meter is None:
            return False
        was_proven, now = meter.proven, self._clock.monotonic()
        if not meter.answered(token, now):
            return False
        if isinstance(way, DirectLink) and not was_proven:
            prefer_proven(state, way)
            return True
        reconsider(state, relays, now)
        return False

    def watch(
        self, peer: PeerId, state: PeerState, relays: "Sequence[RelayLink]"
    ) -> tuple[Packet, ...]:
        """Probe what is due and doubt what is dead; call it some times a second.

        Returns what a path in doubt did not write, to be sent another way.
        """
        now = self._clock.monotonic()
        if state.used:
            state.used, state.used_at = False, now
        up = [relay for relay in relays if relay.up]
        n_ways = len(state.links) + len(up)
        in_use = n_ways > 1 and now - state.used_at < IN_USE_S
        state.measured = in_use
        unsent: tuple[Packet, ...] = ()
        for link in tuple(state.links):
            if self._is_dead(link, now):
                link.abort("the peer is silent")
                continue
            if self._doubt(link.meter, now) and n_ways > 1:
                unsent += link.take_back()
            if self._is_due(link, link.meter, state, in_use=in_use):
                self._probe(link, peer, link.meter, state)
        if in_use:
            for relay in up:
                meter = state.at(relay).meter
                self._doubt(meter, now)
                if self._is_due(relay, meter, state, in_use=True):
                    self._probe(relay, peer, meter, state)
            reconsider(state, relays, now)
        return unsent

    def _probe(self, way: Way, peer: PeerId, meter: Meter, state: PeerState) -> None:
        token = int.from_bytes(self._random_bytes(8), "big")
        probe = state.session.probe(token)
        if probe is not None and not way.crowded:
            meter.probed(token, self._clock.monotonic())
            self._put(way, peer, probe)

    @staticmethod
    def _is_dead(link: DirectLink, now: float) -> bool:
        if now - link.meter.alive_at > DEAD_S:
            return True
        return not link.proven and now - link.opened_at > UNPROVEN_S

    @staticmethod
    def _doubt(meter: Meter, now: float) -> bool:
        """Doubt a path that lost its probe; tell whether it was not doubted before."""
        if not meter.is_overdue(now):
            return False
        was_doubted, meter.doubted = meter.doubted, True
        return not was_doubted

    def _is_due(
        self, way: Way, meter: Meter, state: PeerState, *, in_use: bool
    ) -> bool:
        now = self._clock.monotonic()
        since_s = now - meter.probed_at
        if isinstance(way, DirectLink) and not meter.proven:
            return since_s > _PROVE_S
        if meter.is_waiting and not meter.is_overdue(now):
            return since_s > QUIET_S  # it lives, the probe was lost: new keys, say
        if meter.doubted:
            return True
        silent_s = now - meter.alive_at
        is_chosen = way is state.chosen
        if is_chosen and state.used_at > meter.alive_at and silent_s > SILENT_S:
            return in_use
        if in_use:
            is_spare = not is_chosen and not isinstance(way, DirectLink)
            return since_s > (_MEASURE_IDLE_RELAY_S if is_spare else _MEASURE_S)
        return silent_s > QUIET_S and since_s > _PROVE_S
