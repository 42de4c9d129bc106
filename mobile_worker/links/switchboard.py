"""Between the links and the sessions of a node: who gets which packet, and what next.

All of it runs on the trio thread in plain calls: a packet goes from the socket through
the session into the arrivals, and a message from `send` through the session to the
socket, without a task in between. Tasks only wait: for sockets, for the relay, for the
tick that repeats handshakes and probes quiet links.

A peer that breaks the protocol, or whose messages do not parse, loses its links and
keys, with one log line, and nothing else changes.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from mobile_worker.clock import Clock
from mobile_worker.errors import (
    HandshakeError,
    MessageError,
    ProtocolBreach,
    SealError,
)
from mobile_worker.links.arrivals import Arrivals
from mobile_worker.links.direct import DirectLink
from mobile_worker.links.door import Door, may_knock, may_say
from mobile_worker.links.events import (
    Arrived,
    LostReason,
    PeerLost,
    Undelivered,
    UndeliveredReason,
)
from mobile_worker.links.failover import follow, try_another
from mobile_worker.links.link import Link
from mobile_worker.links.node import Traffic
from mobile_worker.links.paths import PeerState, choose_link, is_absent
from mobile_worker.links.presence import Presence
from mobile_worker.links.proving import Prober
from mobile_worker.messages.classes import MessageClass
from mobile_worker.messages.codec import parse_message
from mobile_worker.session import packets
from mobile_worker.session.outcomes import (
    Delivered,
    Established,
    Failed,
    Farewell,
    Outcome,
    ProbeAnswered,
)
from mobile_worker.session.packets import Packet, PacketKind
from relay.keys import PeerId, short_id

if TYPE_CHECKING:
    from mobile_worker.links.relay import RelayLink

__all__ = ["Receipt", "Switchboard"]

_LOG = logging.getLogger("p2pmoe.links")
MAX_UNPROVEN_LINKS: Final = 64
MAX_LINKS_PER_PEER: Final = 4
_HINTS_PER_TICK = 20


class Receipt(NamedTuple):
    """What is owed to a session when its message has been taken."""

    peer: PeerId
    state: PeerState
    message_class: MessageClass
    n_bytes: int


class Switchboard:
    """All peers of a node, their sessions and links; owner of those links."""

    def __init__(
        self,
        presence: Presence,
        clock: Clock,
        dial: Callable[[PeerId], None],
        seek: Callable[[PeerId, PeerState], bool] = lambda _peer, _state: False,
    ) -> None:
        """`dial` is called when a direct link to a peer would be good to have.

        `seek` is asked whether a peer that none of our relays has may be at another.
        """
        self.traffic = Traffic()
        self.relays: tuple[RelayLink, ...] = ()  # in order of preference
        self.relay_queue_bytes = 0
        self._door = Door(presence.own, self._watch)
        self.peers = self._door.peers
        self._presence = presence
        self._clock = clock
        self._dial = dial
        self._seek = seek
        self._prober = Prober(self._put, presence.own.random_bytes, clock)
        self.arrivals: Arrivals[Receipt] = Arrivals(self._taken)
        self._attention: set[PeerId] = set()
        self._n_hints_left = _HINTS_PER_TICK
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether the node has ended."""
        return self._closed

    def friends(self) -> Iterator[PeerId]:
        """Iterate over the peers that are no strangers."""
        return (peer for peer in self.peers if not self._door.is_stranger(peer))

    def forget(self, peer: PeerId) -> None:
        """Drop session, links, queue and record of a peer."""
        self._door.forget(peer)

    def close(self) -> None:
        """Say farewell to all and end the arrivals."""
        self._closed = True
        for peer, state in self.peers.items():
            link = choose_link(state, self.relays)
            farewell = None if state.lost else state.session.farewell()
            if link is not None and farewell is not None:
                self._put(link, peer, farewell)
        self.arrivals.close()

    def packet_arrived(self, link: Link, peer: PeerId, packet: bytes) -> None:
        """Take a packet of `peer`, as the relay or the other end claims."""
        self.traffic.down_bytes[link.kind] += len(packet)
        state = self.peers.get(peer) or self._admit(link, peer, packet)
        if state is None:
            return
        session, now = state.session, self._clock.monotonic()
        if not may_knock(link, state, packet, now):
            self.traffic.n_refused += 1
            return
        n_proven = session.n_proven
        try:
            outcomes = session.receive(packet, now)
        except (SealError, HandshakeError) as error:
            self.traffic.n_refused += 1
            _LOG.debug("packet of %s refused: %s", short_id(peer), error)
            outcomes = []
        except ProtocolBreach as error:
            self._expel(peer, error)
            return
        if session.n_proven > n_proven:  # whoever carries packets can make others
            self._seen_by(link, state, packet, now)
        if session.replies:
            for reply in session.replies:
                self._put(link, peer, reply)
            session.replies.clear()
        for outcome in outcomes:
            self._take(link, peer, state, outcome)
        if session.has_packets or session.needs_time:
            self.pump(peer, state)
        self.arrivals.flush()

    def _seen_by(self, link: Link, state: PeerState, packet: bytes, now: float) -> None:
        state.seen_by(link, packet, now)
        if len(self.relays) > 1:
            follow(state, link, now, is_message=packets.carries_message(packet))

    def link_writable(self, link: Link) -> None:
        """Go on with what waits for this link."""
        alone = (link.peer,) if isinstance(link, DirectLink) else None
        for peer in alone or tuple(self._attention):
            state = self.peers.get(peer)
            if state is not None:
                self.pump(peer, state)

    def link_added(self, link: DirectLink) -> bool:
        """Take a new direct link, to be proven; tell whether there was room."""
        if self._closed or self._n_unproven() >= MAX_UNPROVEN_LINKS:
            return False
        state = self._door.stranger(link.peer)
        if len(state.links) >= MAX_LINKS_PER_PEER:
            return False
        state.links.append(link)
        self._attention.add(link.peer)
        self._prober.prove(link, state)
        self.pump(link.peer, state)
        return True

    def link_lost(self, link: Link, unsent: Sequence[Packet], reason: str) -> None:
        """Fall back at once: what the direct link did not write goes another way."""
        if not isinstance(link, DirectLink):
            return
        peer = link.peer
        state = self.peers.get(peer)
        if state is None or link not in state.links or self._closed:
            return
        state.links.remove(link)
        _LOG.info("direct link to %s ended: %s", short_id(peer), reason)
        if self._door.is_stranger(peer):
            return
        if not state.links:
            self.judge(peer, state, LostReason.LINK)
        fallback = None if state.lost else choose_link(state, self.relays)
        if fallback is not None:
            for packet in unsent:
                fallback.send(peer, packet)
            self.pump(peer, state)
        if not state.lost:
            self._dial(peer)

    def unreachable(self, peer: PeerId) -> None:
        """Give up on a peer that cannot be dialled and has no other path."""
        state = self.peers.get(peer)
        if state is None or state.is_held:
            return
        if choose_link(state, self.relays) is None:
            self.lose(peer, state, LostReason.UNREACHABLE)

    def judge(
        self, peer: PeerId, state: PeerState, reason: LostReason = LostReason.GONE
    ) -> None:
        """Lose a peer that no relay has and no link reaches, unless it may be found.

        A relay that is not up says nothing: losing our relay loses no peer.
        """
        if state.direct is not None or state.is_held:
            return
        up = [relay for relay in self.relays if relay.up]
        is_missing = is_absent(state, up) if up else not self.relays
        if is_missing and not self._seek(peer, state):
            self.lose(peer, state, reason)

    def tick(self) -> None:
        """Repeat and probe what is due; called a few times a second."""
        self._n_hints_left = _HINTS_PER_TICK
        now = self._clock.monotonic()
        for peer in tuple(self._attention):
            state = self.peers.get(peer)
            if state is None or not state.needs_time:
                self._attention.discard(peer)
                continue
            if state.is_held and state.release(now):
                self.judge(peer, state)
            unsent = self._prober.watch(peer, state, self.relays)
            link_now = choose_link(state, self.relays)
            if link_now is not None:
                for packet in unsent:
                    link_now.send(peer, packet)
                for outcome in state.session.on_time(now):
                    self._take(link_now, peer, state, outcome)
                try_another(state, self.relays)
                self.pump(peer, state)

    def attend(self, peer: PeerId, state: PeerState) -> None:
        """Look after a peer from now on; send what waits."""
        self._attention.add(peer)
        self.pump(peer, state)

    def state_of(self, peer: PeerId) -> PeerState:
        """Return what is kept of a peer, from now on if not before."""
        return self._door.known(peer)

    def _watch(self, peer: PeerId) -> None:
        for relay in self.relays:
            relay.watch((peer,))

    def _put(self, link: Link, peer: PeerId, payload: bytes) -> None:
        if link.crowded:  # the peer asks again
            return
        self.traffic.up_bytes[link.kind] += len(payload)
        link.send(peer, packets.own_packet(payload))

    def _admit(self, link: Link, peer: PeerId, packet: bytes) -> PeerState | None:
        """Make room for a stranger that begins a handshake."""
        if packet[:1] in _FIRST_PACKETS:
            return self._door.stranger(peer)
        if packet[:1] == _SEALED and len(packet) > 5 and self._n_hints_left:
            self._n_hints_left -= 1
            hint = packets.unknown_packet(int.from_bytes(packet[1:5], "big"))
            self._put(link, peer, hint)
        return None

    def pump(self, peer: PeerId, state: PeerState) -> None:
        """Send what the session has for the link there is, as far as it takes it."""
        session = state.session
        link = choose_link(state, self.relays)
        if link is not None:
            self._send_all(peer, state, link)
        elif session.needs_time:
            self._dial(peer)
            if not self.relays and not state.dialling:
                self.lose(peer, state, LostReason.UNREACHABLE)
        if session.needs_time:
            self._attention.add(peer)

    def _send_all(self, peer: PeerId, state: PeerState, link: Link) -> None:
        state.fit(link, self.relay_queue_bytes)
        now = self._clock.monotonic()
        sent = self.traffic.up_bytes
        take = state.session.next_packet
        while (open_to := link.open_to) is not None and (packet := take(now, open_to)):
            state.used = True
            sent[link.kind] += len(packet.payload)
            link.send(peer, packet)
        if state.used and len(self.relays) > 1:
            self._attention.add(peer)

    def _take(
        self, link: Link, peer: PeerId, state: PeerState, outcome: Outcome
    ) -> None:
        if isinstance(outcome, Delivered):
            self._deliver(peer, state, outcome)
        elif isinstance(outcome, Established):
            self._established(peer, state, outcome)
        elif isinstance(outcome, ProbeAnswered):
            if self._prober.answered(link, state, outcome.token, self.relays):
                state.lost = False
                _LOG.info("direct link to %s is up", short_id(peer))
        elif isinstance(outcome, Farewell):
            for direct in state.links:
                direct.abort("the peer ended")
            state.links.clear()
            self.lose(peer, state, LostReason.GONE)
        elif isinstance(outcome, Failed):
            self.undelivered(peer, UndeliveredReason.LOST, outcome.n_dropped)
            self.lose(peer, state, LostReason.UNREACHABLE)

    def _deliver(self, peer: PeerId, state: PeerState, outcome: Delivered) -> None:
        n_bytes = len(outcome.message)
        receipt = Receipt(peer, state, outcome.message_class, n_bytes)
        if not may_say(peer, outcome.message, self._presence.descriptor):
            self.traffic.n_refused += 1
            self._taken(receipt)
            return
        try:
            message = parse_message(outcome.message)
        except MessageError as error:
            self._expel(peer, error)
            return
        state.lost = False
        self.arrivals.put_soon(Arrived(peer, message, n_bytes), receipt)

    def _established(
        self, peer: PeerId, state: PeerState, outcome: Established
    ) -> None:
        state.lost = False
        self._door.proved(peer)
        self.undelivered(peer, UndeliveredReason.LOST, outcome.n_dropped)
        if outcome.restarted:
            self.arrivals.put(PeerLost(peer, LostReason.RESTARTED))
        state.kind = None  # new keys begin with the first window
        for link in state.links:
            self._prober.prove(link, state)
        self._dial(peer)

    def _n_unproven(self) -> int:
        return sum(
            not link.proven
            for peer in self._attention
            if (state := self.peers.get(peer)) is not None
            for link in state.links
        )

    def _taken(self, receipt: Receipt) -> None:
        session = receipt.state.session
        if session.consumed(receipt.message_class, receipt.n_bytes):
            self.pump(receipt.peer, receipt.state)

    def lose(self, peer: PeerId, state: PeerState, reason: LostReason) -> None:
        """Give up what is under way with a peer, and tell our owner once."""
        state.session.suspect()
        self.undelivered(peer, UndeliveredReason.NOT_HERE, state.session.drop())
        if not state.lost and not self._door.is_stranger(peer):
            state.lost = True
            self.arrivals.put(PeerLost(peer, reason))

    def _expel(self, peer: PeerId, error: Exception) -> None:
        _LOG.warning("peer %s broke the protocol: %s", short_id(peer), error)
        self.traffic.n_refused += 1
        self.forget(peer)
        self.arrivals.put(PeerLost(peer, LostReason.FORBIDDEN))

    def undelivered(self, peer: PeerId, reason: UndeliveredReason, count: int) -> None:
        """Tell our owner of messages that did not arrive, if there are any."""
        if count:
            self.arrivals.put(Undelivered(peer, reason, count))


_FIRST_PACKETS = (bytes((PacketKind.IK_1,)), bytes((PacketKind.XX_1,)))
_SEALED = bytes((PacketKind.SEALED,))
