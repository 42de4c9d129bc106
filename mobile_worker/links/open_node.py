"""Open a node: `async with open_node(settings) as node`.

The tasks of a node live in the nursery of this block: the relay connection, the
listener, one task per direct link, and the tick. When the block ends, peers hear a
farewell and everything is closed.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import trio

from mobile_worker.clock import Clock, SystemClock
from mobile_worker.links.dialling import (
    accept_links,
    addresses_of,
    dial_any,
    open_listener,
)
from mobile_worker.links.direct import DirectLink
from mobile_worker.links.discovery import Found, Hints
from mobile_worker.links.homes_keeper import HomesKeeper
from mobile_worker.links.lan import announcement, search_lan
from mobile_worker.links.linked_node import LinkedNode
from mobile_worker.links.node import NodeSettings
from mobile_worker.links.paths import PeerState
from mobile_worker.links.presence import Presence
from mobile_worker.links.switchboard import Switchboard
from mobile_worker.session.records import PeerRecord
from relay.client import ClientSettings
from relay.endpoint import is_loopback
from relay.groups import only_exception
from relay.keys import PeerId

__all__ = ["open_node"]

_LAN_LISTEN: Final = "0.0.0.0:0"
# Bulk for many peers may fill this; a layer's row then waits for half of it: 0.8 s of
# 5 Mbit/s. Control does not wait.
_SEND_QUEUE_BYTES: Final = 1 << 20
_TICK_S: Final = 0.2
_FIRST_DIAL_PAUSE_S: Final = 1.0
_MAX_DIAL_PAUSE_S: Final = 60.0
_MAX_DIALS: Final = 8  # in vain, in a row
_LASTED_S: Final = 5.0  # a dialled link that lived so long was worth it
_MAX_DIALLING: Final = 16  # at the same time


@asynccontextmanager
async def open_node(
    settings: NodeSettings,
    *,
    clock: Clock | None = None,
    relay_client: ClientSettings | None = None,
) -> AsyncIterator[LinkedNode]:
    """Open a node and keep it connected while the block runs.

    Raises:
        RelayError: the first connection to a relay failed; later losses are made good.
        RecordError: the relay hands out a descriptor that is not valid or not ours.
        ListenError: the address for direct links cannot be opened.
    """
    clock = clock or SystemClock()
    tasks = _Tasks(settings, clock)
    async with only_exception(), trio.open_nursery() as nursery:
        tasks.nursery = nursery
        node = tasks.node
        listen = settings.listen or (_LAN_LISTEN if settings.lan else None)
        listeners = await open_listener(listen) if listen else []
        try:
            if settings.endpoints:
                client = relay_client or ClientSettings(
                    send_queue_bytes=_SEND_QUEUE_BYTES
                )
                await tasks.start_relay(client)
            if settings.listen:
                observed = tasks.presence.observed_address
                tasks.presence.set_addresses(addresses_of(listeners, observed))
            if listeners:
                nursery.start_soon(accept_links, listeners, node.peer_id, tasks.take)
            nursery.start_soon(tasks.tick)
            if settings.lan:
                announced = announcement(
                    tasks.presence.own.network, node.peer_id, listeners
                )
                nursery.start_soon(search_lan, announced, tasks.heed_lan)
            yield node
        finally:
            node.close()
            for listener in listeners:
                listener.socket.close()
            nursery.cancel_scope.cancel()


@dataclass(slots=True)
class _Tasks:
    """The node and what runs for it."""

    settings: NodeSettings
    clock: Clock
    presence: Presence = field(init=False)
    switchboard: Switchboard = field(init=False)
    node: LinkedNode = field(init=False)
    nursery: trio.Nursery = field(init=False)
    dials: trio.CapacityLimiter = field(init=False)
    hints: Hints = field(init=False)
    keeper: HomesKeeper | None = None

    def __post_init__(self) -> None:
        self.presence = Presence(self.settings, self.clock)
        self.switchboard = Switchboard(self.presence, self.clock, self.dial, self.seek)
        self.node = LinkedNode(self.presence, self.switchboard)
        self.dials = trio.CapacityLimiter(_MAX_DIALLING)
        self.hints = Hints(lambda: self.presence.own.network)

    @property
    def is_local(self) -> bool:
        """Whether the whole network seems to be on this host."""
        return all(is_loopback(each.host) for each in self.settings.endpoints)

    async def start_relay(self, client: ClientSettings) -> None:
        """Come home to a relay, and stay at home from then on."""
        self.keeper = HomesKeeper(
            self.settings, client, self.presence, self.switchboard, self.clock
        )
        await self.keeper.start(self.nursery)

    def seek(self, peer: PeerId, state: PeerState) -> bool:
        """Look for a peer at other relays; tell whether there is any chance."""
        return self.keeper is not None and self.keeper.seek(peer, state)

    async def tick(self) -> None:
        """Let the node repeat and probe what is due."""
        while True:
            await trio.sleep(_TICK_S)
            self.switchboard.tick()
            if self.keeper is not None:
                self.keeper.side.tick()

    def take(self, stream: trio.SocketStream, peer: PeerId) -> None:
        """Run a direct link for a greeted connection."""
        self.nursery.start_soon(self._add_link(stream, peer).run)

    def _add_link(self, stream: trio.SocketStream, peer: PeerId) -> DirectLink:
        link = DirectLink(stream, peer, self.switchboard, self.clock)
        if not self.switchboard.link_added(link):
            link.abort("no room for another link")
        return link

    def dial(self, peer: PeerId) -> None:
        """Try to get a direct link, if the peer says where."""
        state = self.switchboard.peers.get(peer)
        record = None if state is None else state.session.record
        if state is None or record is None or state.dialling or state.links:
            return
        if self.addresses_of(record):
            state.dialling = True
            self.nursery.start_soon(self._keep_dialling, peer, state)

    def addresses_of(self, record: PeerRecord) -> tuple[str, ...]:
        """Return where to dial a peer: where the local network has it comes first."""
        found = self.hints.of(record.peer_id) if self.settings.lan else ()
        return (*found, *record.direct_addresses)

    def heed_lan(self, found: Found) -> None:
        """Dial a peer that was found on the local network, if it is one of ours."""
        peer = self.hints.heed(found)
        if peer is not None:
            self.dial(peer)

    async def _keep_dialling(self, peer: PeerId, state: PeerState) -> None:
        """Dial, keep the link to its end, dial again; later each time it is in vain.

        A peer may name an address where somebody answers and closes at once, and anyone
        on the local network may announce one: the next try begins at the next address.
        """
        pause_s, n_in_vain, n_false = _FIRST_DIAL_PAUSE_S, 0, 0
        try:
            while n_in_vain < _MAX_DIALS:
                record = state.session.record
                addresses = () if record is None else self.addresses_of(record)
                first = n_false % max(1, len(addresses))
                addresses = addresses[first:] + addresses[:first]
                has_lasted = await self._link_to(peer, state, addresses)
                if self._is_done_with(peer, state) or (has_lasted and state.lost):
                    return
                if has_lasted:
                    pause_s, n_in_vain, n_false = _FIRST_DIAL_PAUSE_S, 0, 0
                    continue
                n_in_vain += 1
                n_false += has_lasted is False
                if has_lasted is None and state.session.record is not record:
                    continue  # it told other addresses meanwhile
                if has_lasted is None and not self.switchboard.relays:
                    break
                await trio.sleep(pause_s)
                if self._is_done_with(peer, state):
                    return
                pause_s = min(2 * pause_s, _MAX_DIAL_PAUSE_S)
        finally:
            state.dialling = False
        self.switchboard.unreachable(peer)

    async def _link_to(
        self, peer: PeerId, state: PeerState, addresses: tuple[str, ...]
    ) -> bool | None:
        """Run a link to its end; tell whether it was a good one, None if none came."""
        async with self.dials:
            stream = await dial_any(
                addresses, self.node.peer_id, peer, is_local=self.is_local
            )
        if stream is None:
            return None
        if self.switchboard.peers.get(peer) is not state:
            await trio.aclose_forcefully(stream)
            return None
        state.session.begin(self.clock.monotonic())
        link = self._add_link(stream, peer)
        await link.run()
        lasted_s = self.clock.monotonic() - link.opened_at
        return link.proven and lasted_s >= _LASTED_S

    def _is_done_with(self, peer: PeerId, state: PeerState) -> bool:
        """Tell whether there is no more reason to dial a peer."""
        is_forgotten = self.switchboard.peers.get(peer) is not state
        return is_forgotten or bool(state.links)
