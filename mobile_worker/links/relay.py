"""The link by way of one relay: to every peer that is there, always on.

`RelayLink.run` keeps one connection until it is stopped: it tells how the first attempt
went, and makes losses good by `relay.backoff`'s row of delays. Losing our relay says
nothing about any peer. What the relay says of peers (gone, not here, frames not
delivered) and of itself (a new map, that it drains) goes to the owner as it is.
"""

import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

import trio

from mobile_worker.clock import Clock
from mobile_worker.errors import RecordError
from mobile_worker.links.events import PathKind
from mobile_worker.links.link import LinkOwner
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.packets import Packet
from relay.backoff import Backoff
from relay.client import ClientSettings, RelayConnection, connect
from relay.endpoint import Endpoint
from relay.errors import (
    ConnectionLost,
    HandshakeRefused,
    RelayBusy,
    RelayError,
    RelayUnreachable,
    SendQueueFull,
    TokenRefused,
)
from relay.events import (
    Event,
    Nacked,
    PeerGone,
    PeerPresence,
    PeersSeenFrom,
    Received,
    RelayLimits,
    RelayRestarting,
    RelayStatus,
)
from relay.frame_types import FrameClass, NackReason, PresenceState, StatusCode
from relay.greetings import Welcome
from relay.groups import only_exception
from relay.handshake import Credentials
from relay.keys import PeerId
from relay.suspend import sleep_awake

__all__ = ["RelayLink", "RelayOwner", "RelaySettings", "StartError"]

_LOG = logging.getLogger("p2pmoe.links")
_MAX_HELD: Final = 16_384  # packets
_WORTH_READING: Final = (
    StatusCode.RATE_LIMITED,
    StatusCode.SLOW,
    StatusCode.LEASE_ENDING,
)
StartError: TypeAlias = RelayError | RecordError
_LASTED_S: Final = 5.0  # a connection that lived so long starts the delays anew
_REFUSED_S: Final = 60.0  # before a token that was refused is shown again


class RelayOwner(LinkOwner, Protocol):
    """Who gets what the relay says."""

    def relay_up(self, relay: "RelayLink", welcome: Welcome) -> None:
        """Note that the relay is there, at first or again."""
        ...

    def relay_down(
        self, relay: "RelayLink", unsent: Sequence[tuple[PeerId, Packet]], detail: str
    ) -> None:
        """Note that it is not; `unsent` may go another way."""
        ...

    def relay_says(self, relay: "RelayLink", code: StatusCode) -> None:
        """Note what it says of itself."""
        ...

    def relay_limits(self) -> None:
        """Note that the limits of some relay are others than before."""
        ...

    def peer_present(self, relay: "RelayLink", peer: PeerId, *, here: bool) -> None:
        """Note that a watched peer came to the relay, or left it."""
        ...

    def peer_seen_from(self, peer: PeerId, prefix: str) -> None:
        """Note from which network it sees a peer."""
        ...

    def frames_refused(
        self, relay: "RelayLink", peer: PeerId, reason: NackReason, count: int
    ) -> None:
        """Note that frames to this peer were not delivered."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """Which relay, as whom."""

    endpoint: Endpoint
    credentials: Credentials
    client: ClientSettings


class RelayLink:
    """Our connection to one relay. n_carried: packets that went by it, both ways."""

    kind = PathKind.RELAY

    def __init__(
        self, settings: RelaySettings, owner: RelayOwner, clock: Clock
    ) -> None:
        self.endpoint = settings.endpoint
        self.round_trip_s: float | None = None  # of TCP, as it was when we connected
        self.n_carried = 0
        self.queue_bytes = 0  # what the relay keeps for us of a class
        self._ticket = b""  # with which we come back to a relay that is crowded
        self._settings = settings
        self._owner = owner
        self._clock = clock
        self._scope = trio.CancelScope()
        self._is_started = False
        self._connection: RelayConnection | None = None
        self._held: deque[tuple[PeerId, Packet]] = deque()
        self._holds_control = False
        self._full = trio.Event()
        self._asked_s = 0.0

    @property
    def up(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    @property
    def heard_s(self) -> float | None:
        """Seconds since anything was read of it; None: there is no connection."""
        return None if self._connection is None else self._connection.heard_s

    @property
    def open_to(self) -> MessageClass | None:
        """The least urgent class that there is room for.

        A connection whose queue is full keeps some room for control.
        """
        if self._connection is None or self._holds_control:
            return None
        return MessageClass.CONTROL if self._held else MessageClass.BULK

    @property
    def crowded(self) -> bool:
        """Whether even answers to what peers send find no room."""
        return len(self._held) >= _MAX_HELD

    def send(self, peer: PeerId, packet: Packet) -> None:
        """Hand the packet to the relay; while there is none, it is lost."""
        connection = self._connection
        if connection is None:
            return
        self.n_carried += 1
        urgent = packet.message_class is MessageClass.CONTROL
        if self._holds_control or (self._held and not urgent):
            self._held.append((peer, packet))
            return
        try:
            connection.send(
                peer, packet.payload, frame_class=FrameClass(packet.message_class)
            )
        except SendQueueFull:
            self._held.append((peer, packet))
            self._holds_control = urgent
            self._full.set()
        except ConnectionLost:
            return  # `run` sees it too

    def watch(self, peers: Iterable[PeerId]) -> None:
        """Ask to be told of these peers' coming and going."""
        if self._connection is not None:
            try:
                self._connection.watch(peers)
            except ConnectionLost:
                return

    def stop(self) -> None:
        """Leave the relay for good; `run` returns soon."""
        self._scope.cancel()

    async def run(
        self,
        task_status: trio.TaskStatus[StartError | None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Keep a connection until stopped; `started` tells how the first attempt went.

        A relay of another network (RecordError) is tried again as one that is away.
        """
        with self._scope:
            async with only_exception(), trio.open_nursery() as nursery:
                nursery.start_soon(self._drain)
                await self._keep(task_status)
        if not self._is_started:
            self._is_started = True
            task_status.started(RelayUnreachable("the relay was left at once"))

    async def _keep(self, task_status: trio.TaskStatus[StartError | None]) -> None:
        backoff = Backoff(random=random.random)
        while True:
            error: StartError | None = None
            try:
                async with self._connected() as connection:
                    if not self._is_started:
                        self._is_started = True
                        task_status.started(None)
                    await self._follow(connection, backoff)
            except (RelayError, RecordError) as exc:
                error = exc
                is_refusal = isinstance(exc, HandshakeRefused | RecordError)
                level = logging.WARNING if is_refusal else logging.DEBUG
                hint = f"; {exc.advice}" if is_refusal and exc.advice else ""
                _LOG.log(level, "relay %s: %s%s", self.endpoint.address, exc, hint)
            if not self._is_started:
                self._is_started = True
                task_status.started(error)
            asked_s = _asked_s(error) or self._asked_s
            self._asked_s = 0.0
            delay_s = backoff.next_delay_s(asked_s=asked_s)
            if not await sleep_awake(delay_s, self._clock.wall_us):
                backoff.reset()  # this host was suspended: nothing of before counts

    async def _drain(self) -> None:
        """Send what the connection could not take at once."""
        while True:
            await self._full.wait()
            self._full = trio.Event()
            connection = self._connection
            if connection is None:
                continue
            try:
                await connection.wait_writable()
            except ConnectionLost:
                continue
            held, self._held = self._held, deque()
            self._holds_control = False
            for peer, packet in held:
                self.send(peer, packet)
            if not self._held:
                self._owner.link_writable(self)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[RelayConnection]:
        async with connect(
            self.endpoint,
            replace(self._settings.credentials, ticket=self._ticket),
            wall_us=self._clock.wall_us,
            settings=self._settings.client,
        ) as connection:
            self._connection = connection
            self.round_trip_s = connection.route.tcp_s
            self.queue_bytes = connection.welcome.limits.queue_bytes
            self._ticket = connection.welcome.ticket
            try:
                self._owner.relay_up(self, connection.welcome)
            except RecordError:  # it is none of ours: it never was up
                self._connection = None
                raise
            detail = "closed"
            try:
                yield connection
            except ConnectionLost as error:
                detail = error.reason
                raise
            finally:
                self._connection = None
                unsent, self._held = self._held, deque()
                self._holds_control = False
                self._owner.relay_down(self, unsent, detail)

    async def _follow(self, connection: RelayConnection, backoff: Backoff) -> None:
        began = self._clock.monotonic()
        try:
            await connection.take_each(self._take)
        finally:
            if self._clock.monotonic() - began >= _LASTED_S:
                backoff.reset()

    def _take(self, event: Event) -> None:
        if isinstance(event, Received):
            self.n_carried += 1
            self._owner.packet_arrived(self, event.source, event.payload)
        else:
            self._heed(event)

    def _heed(self, event: Event) -> None:
        if isinstance(event, Nacked):
            count, reason = event.count, event.reason
            self._owner.frames_refused(self, event.destination, reason, count)
        elif isinstance(event, PeerGone | PeerPresence | PeersSeenFrom):
            self._heed_peers(event)
        elif isinstance(event, RelayStatus):
            if event.code in _WORTH_READING:
                _LOG.warning("relay %s: %s", self.endpoint.address, event.text)
            self._owner.relay_says(self, event.code)
        elif isinstance(event, RelayLimits):
            self.queue_bytes = event.limits.queue_bytes
            self._owner.relay_limits()
        elif isinstance(event, RelayRestarting):
            self._asked_s = event.reconnect_in_ms / 1000

    def _heed_peers(self, event: PeerGone | PeerPresence | PeersSeenFrom) -> None:
        if isinstance(event, PeerGone):
            self._owner.peer_present(self, event.peer, here=False)
        elif isinstance(event, PeerPresence):
            for peer, state in event.states:
                here = state is not PresenceState.ABSENT
                self._owner.peer_present(self, peer, here=here)
        else:
            for peer, prefix in event.prefixes:
                self._owner.peer_seen_from(peer, prefix)


def _asked_s(error: StartError | None) -> float:
    """Return the seconds for which a failed attempt forbids the next."""
    if isinstance(error, RelayBusy):
        return error.retry_s
    return _REFUSED_S if isinstance(error, TokenRefused) else 0.0
