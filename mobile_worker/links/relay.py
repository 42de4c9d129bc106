"""The link by way of a relay: to every peer of the network, always on.

`RelayLink.run` keeps one connection for ever: the first attempt decides whether the
node starts at all; later losses are made good by `relay.backoff`'s row of delays.
Losing our relay says nothing about any peer. What the relay says of peers (gone, not
here, frames not delivered) goes to the owner as it is.
"""

import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

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
from relay.errors import ConnectionLost, RelayBusy, RelayError, SendQueueFull
from relay.events import (
    Event,
    Nacked,
    PeerGone,
    PeerPresence,
    Received,
    RelayRestarting,
)
from relay.frame_types import FrameClass, NackReason, PresenceState
from relay.greetings import Welcome
from relay.handshake import Credentials
from relay.keys import PeerId
from relay.suspend import sleep_awake

__all__ = ["RelayLink", "RelayOwner", "RelaySettings"]

_LOG = logging.getLogger("p2pmoe.links")
_MAX_HELD: Final = 16_384  # packets
_LASTED_S: Final = 5.0  # a connection that lived so long starts the delays anew


class RelayOwner(LinkOwner, Protocol):
    """Who gets what the relay says."""

    def relay_up(self, welcome: Welcome) -> None:
        """Note that the relay is there, at first or again."""
        ...

    def relay_down(self, detail: str) -> None:
        """Note that it is not."""
        ...

    def peer_present(self, peer: PeerId, *, here: bool) -> None:
        """Note that a watched peer came to the relay, or left it."""
        ...

    def frames_refused(self, peer: PeerId, reason: NackReason, count: int) -> None:
        """Note that frames to this peer were not delivered."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """Which relays, as whom. The endpoints are tried in this order."""

    endpoints: tuple[Endpoint, ...]
    credentials: Credentials
    client: ClientSettings


class RelayLink:
    """Our connection to the relay, whichever it is at present."""

    kind = PathKind.RELAY

    def __init__(
        self, settings: RelaySettings, owner: RelayOwner, clock: Clock
    ) -> None:
        self._settings = settings
        self._owner = owner
        self._clock = clock
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

    async def run(
        self,
        task_status: trio.TaskStatus[RelayError | None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Keep a connection; report `started` with the error if the first one fails.

        Raises:
            RecordError: the first relay is of another network.
        """
        backoff = Backoff(random=random.random)
        started = False
        while True:
            error: RelayError | None = None
            for endpoint in self._settings.endpoints:
                try:
                    async with self._connected(endpoint) as connection:
                        if not started:
                            started = True
                            task_status.started(None)
                        await self._follow(connection, backoff)
                except RelayError as exc:
                    error = error or exc
                except RecordError as exc:
                    if not started:
                        raise
                    _LOG.warning("%s does not fit: %s", endpoint.address, exc)
                if self._asked_s:
                    break
            if not started:
                task_status.started(error)
                return
            asked_s = error.retry_s if isinstance(error, RelayBusy) else self._asked_s
            self._asked_s = 0.0
            delay_s = backoff.next_delay_s(asked_s=asked_s)
            if not await sleep_awake(delay_s, self._clock.wall_us):
                backoff.reset()  # this host was suspended: nothing of before counts

    async def drain(self) -> None:
        """Send what the connection could not take at once; runs beside `run`."""
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
    async def _connected(self, endpoint: Endpoint) -> AsyncIterator[RelayConnection]:
        async with connect(
            endpoint,
            self._settings.credentials,
            wall_us=self._clock.wall_us,
            settings=self._settings.client,
        ) as connection:
            self._connection = connection
            self._owner.relay_up(connection.welcome)
            detail = "closed"
            try:
                yield connection
            except ConnectionLost as error:
                detail = error.reason
                raise
            finally:
                self._connection = None
                self._held.clear()
                self._holds_control = False
                self._owner.relay_down(detail)

    async def _follow(self, connection: RelayConnection, backoff: Backoff) -> None:
        began = self._clock.monotonic()
        try:
            async for event in connection.events():
                if isinstance(event, Received):
                    self._owner.packet_arrived(self, event.source, event.payload)
                else:
                    self._heed(event)
        finally:
            if self._clock.monotonic() - began >= _LASTED_S:
                backoff.reset()

    def _heed(self, event: Event) -> None:
        if isinstance(event, Nacked):
            self._owner.frames_refused(event.destination, event.reason, event.count)
        elif isinstance(event, PeerGone):
            self._owner.peer_present(event.peer, here=False)
        elif isinstance(event, PeerPresence):
            for peer, state in event.states:
                here = state is not PresenceState.ABSENT
                self._owner.peer_present(peer, here=here)
        elif isinstance(event, RelayRestarting):
            self._asked_s = event.reconnect_in_ms / 1000
