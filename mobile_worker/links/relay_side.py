"""What relays tell a node: who is there, who left, what was not delivered.

Each relay speaks for itself alone. A peer is lost when no relay that is up has it and
no link reaches it; what one relay lost, another carries on at once. A relay that we
just came (back) to, or just lost, is given some seconds, since its peers may be on
their way to it, or to another, too.
"""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final

from mobile_worker.clock import Clock
from mobile_worker.links.events import (
    PeerBack,
    PeerSeenFrom,
    RelayChanged,
    UndeliveredReason,
)
from mobile_worker.links.link import Link
from mobile_worker.links.paths import choose_link
from mobile_worker.links.presence import Presence
from mobile_worker.links.relay import RelayLink
from mobile_worker.links.switchboard import Switchboard
from mobile_worker.session.packets import Packet
from relay.frame_types import NackReason, StatusCode
from relay.greetings import Welcome
from relay.keys import PeerId, short_id

__all__ = ["RETURN_S", "RelayNews", "RelaySide"]

RETURN_S: Final = 15.0  # so long peers may need to come back to a restarted relay
_RENEWALS_PER_TICK: Final = 20
_UNDELIVERED: Final = {
    NackReason.QUEUE_FULL: UndeliveredReason.QUEUE_FULL,
    NackReason.EXPIRED: UndeliveredReason.EXPIRED,
}


class RelayNews(Enum):
    """What a relay may say of itself that changes where we are at home."""

    WELCOME = auto()
    NEW_MAP = auto()
    DRAINING = auto()


_NEWS: Final = {
    StatusCode.DRAINING: RelayNews.DRAINING,
    StatusCode.NEW_MAP: RelayNews.NEW_MAP,
}


class RelaySide:
    """The owner of a node's relay links."""

    def __init__(
        self,
        switchboard: Switchboard,
        presence: Presence,
        clock: Clock,
        news: Callable[[RelayLink, RelayNews, int], None],
    ) -> None:
        """`news` hears what a relay says of itself, with its map version if it says so.

        The version is 0 where it is not told.
        """
        self._board = switchboard
        self._presence = presence
        self._clock = clock
        self._news = news
        self._to_renew: deque[PeerId] = deque()

    def packet_arrived(self, link: Link, peer: PeerId, packet: bytes) -> None:
        """Hand a packet on."""
        self._board.packet_arrived(link, peer, packet)

    def link_writable(self, link: Link) -> None:
        """Go on with what waits for a relay."""
        self._board.link_writable(link)

    def link_lost(self, link: Link, unsent: Sequence[Packet], reason: str) -> None:
        """Not for relays: see `relay_down`."""

    def relay_up(self, relay: RelayLink, welcome: Welcome) -> None:
        """Resume every session over the new connection."""
        board = self._board
        self._presence.take_welcome(welcome)
        self.relay_limits()
        if not any(other.up for other in board.relays if other is not relay):
            detail = short_id(welcome.relay_id)
            board.arrivals.put(RelayChanged(up=True, detail=detail))
        relay.watch(board.friends())
        until = self._clock.monotonic() + RETURN_S
        for peer, state in tuple(board.peers.items()):
            state.hold(relay, until)
            board.attend(peer, state)
        self._news(relay, RelayNews.WELCOME, welcome.map_version)

    def relay_down(
        self, relay: RelayLink, unsent: Sequence[tuple[PeerId, Packet]], detail: str
    ) -> None:
        """Go on over the other relays; no peer is lost by that."""
        board = self._board
        if board.is_closed:
            return
        if not any(other.up for other in board.relays if other is not relay):
            board.arrivals.put(RelayChanged(up=False, detail=detail))
        for peer, packet in unsent:
            state = board.peers.get(peer)
            way = None if state is None else choose_link(state, board.relays)
            if way is not None:
                way.send(peer, packet)
        until = self._clock.monotonic() + RETURN_S
        for peer, state in tuple(board.peers.items()):
            if relay in state.relays:
                state.hold(relay, until)
                board.attend(peer, state)

    def relay_gone(self, relay: RelayLink) -> None:
        """Forget a relay that we left for good; that says nothing about its peers."""
        for state in self._board.peers.values():
            state.relays.pop(relay, None)
            if state.chosen is relay:
                state.chosen = None
            if state.rival is relay:
                state.rival = None

    def relay_says(self, relay: RelayLink, code: StatusCode) -> None:
        """Note what a relay says of itself."""
        news = _NEWS.get(code)
        if news is not None:
            self._news(relay, news, 0)

    def relay_limits(self) -> None:
        """Go by the smallest of the queues that our relays keep for us."""
        queues = [relay.queue_bytes for relay in self._board.relays if relay.up]
        self._board.relay_queue_bytes = min(queues, default=0)

    def peer_present(self, relay: RelayLink, peer: PeerId, *, here: bool) -> None:
        """Note what a relay says of a peer."""
        board = self._board
        state = board.peers.get(peer)
        if state is None:
            return
        path = state.at(relay)
        path.present = here
        if here:
            path.held_until = None
            if state.lost:
                board.arrivals.put(PeerBack(peer))
            board.pump(peer, state)
        elif path.held_until is None:
            board.judge(peer, state)
            if not state.lost:
                board.pump(peer, state)

    def peer_seen_from(self, peer: PeerId, prefix: str) -> None:
        """Tell our owner from which network a relay sees a peer."""
        if peer in self._board.peers:
            self._board.arrivals.put(PeerSeenFrom(peer, prefix))

    def frames_refused(
        self, relay: RelayLink, peer: PeerId, reason: NackReason, count: int
    ) -> None:
        """Tell our owner what a relay did not deliver."""
        board = self._board
        state = board.peers.get(peer)
        if state is None:
            return
        if reason in (NackReason.NOT_HERE, NackReason.GONE):
            was_established = state.session.established
            self.peer_present(relay, peer, here=False)
            if was_established and state.direct is None:
                board.undelivered(peer, UndeliveredReason.NOT_HERE, count)
        else:
            refused = UndeliveredReason.REFUSED
            board.undelivered(peer, _UNDELIVERED.get(reason, refused), count)

    def our_record_changed(self) -> None:
        """Let all who know us learn our record anew, and our owner tell it again."""
        self._to_renew = deque(self._board.peers)
        self._board.arrivals.put(RelayChanged(up=True, detail="other home relays"))

    def tick(self) -> None:
        """Renew a few of the sessions that know an older record of ours."""
        now = self._clock.monotonic()
        n_left = _RENEWALS_PER_TICK
        while self._to_renew and n_left:
            peer = self._to_renew.popleft()
            state = self._board.peers.get(peer)
            if state is not None and state.session.established:
                state.session.begin(now, again=True)
                self._board.attend(peer, state)
                n_left -= 1
