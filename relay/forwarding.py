"""Decides what becomes of each frame, and who hears of whom. No I/O in here.

`receive` takes one message of one peer and changes queues; nothing is written here. The
writers of the connections take it from there, so that a sender's task never waits for a
receiver. Every drop of a frame that asked for it is NACKed to its sender, every other
one is counted (see `relay.metrics`).
"""

from collections.abc import Iterable
from typing import Final

from relay.defaults import SLOW_CONSUMER_S
from relay.errors import ProtocolError
from relay.frame_types import (
    FrameClass,
    FrameType,
    GoneReason,
    Limits,
    NackReason,
    Ping,
    Pong,
    Presence,
    PresenceState,
    SeenFrom,
    Status,
    StatusCode,
    Watch,
)
from relay.frames import (
    CLASS_MASK,
    DATA_HEADER,
    MAX_IDS,
    MAX_PAYLOAD_BYTES,
    NACK_FLAG,
    encode_frame,
    parse_frame,
)
from relay.handshake import Admitted
from relay.keys import PeerId
from relay.limits import KeepAlive, lane_caps
from relay.live import LiveSettings
from relay.metrics import Counters
from relay.outbox import Outbox
from relay.queues import DestinationQueue, QueueBudget, Shed
from relay.registry import Peer, Registry
from relay.terms import Applied, Terms
from relay.turns import Turn

__all__ = ["Switch"]

_SEND: Final = bytes([FrameType.SEND])
_MAX_FLAGS: Final = NACK_FLAG | CLASS_MASK
_MAX_SEND_BYTES: Final = DATA_HEADER.size + MAX_PAYLOAD_BYTES
_TELL_EVERY_S: Final = 10.0
_PING: Final = encode_frame(Ping(nonce=b"p2pmoe-r"))


class Switch:
    """The relay's whole state, moved by frames, arrivals, departures and time."""

    def __init__(self, budget: QueueBudget, terms: Terms) -> None:
        self.registry = Registry()
        self.terms = terms
        self.counters = Counters()
        self.budget = budget
        self.turn = Turn()
        self.is_ending = False  # the relay stops: nobody who leaves it is gone

    def receive(self, source: Peer, message: bytes, now: float) -> None:
        """Handle one message of an authenticated peer.

        Raises:
            ProtocolError: it is not a frame that a peer may send; close the connection.
        """
        if message[:1] != _SEND:
            self._receive_other(source, message, now)
            return
        size = len(message)
        if size < DATA_HEADER.size:
            raise ProtocolError(f"send frame of {size} bytes")
        flags = message[1]
        if flags > _MAX_FLAGS or flags & CLASS_MASK > FrameClass.BULK:
            raise ProtocolError(f"send frame with flags {flags:#04x}")
        self.counters.accepted += 1
        destination = PeerId(message[8:40])
        target = self.registry.active.get(destination)
        if target is None:
            self._account(source, message, NackReason.NOT_HERE)
        elif size > _MAX_SEND_BYTES:
            self._account(source, message, NackReason.TOO_LARGE)
        elif source.parked_until is not None:
            self._account(source, message, NackReason.NOT_ALLOWED)
        else:
            source.contacts[destination] = now
            target.contacts[source.peer_id] = now
            shed = target.outbox.queue.push(source.peer_id, message, now)
            if shed is not None:
                self.report(shed)
                self._tell_slow(target, now)
            target.wake()

    def report(self, shed: Iterable[Shed]) -> None:
        """Tell the senders of frames that will not be delivered."""
        for message, source_id, reason in shed:
            self._account(self.registry.active.get(source_id), message, reason)

    def _account(self, source: Peer | None, message: bytes, reason: NackReason) -> None:
        if source is None or not message[1] & NACK_FLAG:
            self.counters.counted[reason] += 1
            return
        flow = int.from_bytes(message[4:8], "big")
        source.outbox.nack(PeerId(message[8:40]), reason, flow)
        self.counters.nacked[reason] += 1
        self._end_overrun(source)
        source.wake()

    def _end_overrun(self, peer: Peer) -> None:
        if peer.outbox.is_overrun:
            peer.end(GoneReason.SLOW, 1008, "does not read its notices")

    def _receive_other(self, source: Peer, message: bytes, now: float) -> None:
        frame = parse_frame(message)
        match frame:
            case None | Pong():
                return
            case Ping(nonce=nonce):
                source.outbox.pong(encode_frame(Pong(nonce=nonce)))
                source.wake()
            case Watch(peers=()):
                self.registry.forget_watches(source)
            case Watch(peers=peers):
                self._watch(source, peers)
            case _:
                kind = FrameType(message[0]).name
                raise ProtocolError(f"a peer sends no {kind} frame")

    def _watch(self, source: Peer, peers: tuple[PeerId, ...]) -> None:
        self.registry.watch(source, peers)
        self._tell_presence(source, peers)

    def _tell_presence(self, peer: Peer, ids: tuple[PeerId, ...]) -> None:
        active = self.registry.active
        for at in range(0, len(ids), MAX_IDS):
            states = tuple(
                (
                    watched,
                    PresenceState.HERE if watched in active else PresenceState.ABSENT,
                )
                for watched in ids[at : at + MAX_IDS]
            )
            peer.outbox.notice(encode_frame(Presence(states=states)))
            if peer.is_market:
                self._tell_prefixes(peer, ids[at : at + MAX_IDS])
        self._end_overrun(peer)
        peer.wake()

    def _tell_prefixes(self, market: Peer, ids: tuple[PeerId, ...]) -> None:
        """Tell a market from where those come who are here; nobody else learns it."""
        active = self.registry.active
        here = tuple((each, active[each].prefix) for each in ids if each in active)
        if here:
            market.outbox.notice(encode_frame(SeenFrom(prefixes=here)))

    def _tell(self, peer: Peer, code: StatusCode, text: str) -> None:
        peer.outbox.notice(encode_frame(Status(code=code, text=text)))
        peer.wake()

    def _tell_slow(self, peer: Peer, now: float) -> None:
        if now - peer.told_at >= _TELL_EVERY_S:
            peer.told_at = now
            self._tell(peer, StatusCode.SLOW, "frames for you are dropped")

    def tell_throttled(self, peer: Peer, now: float) -> None:
        """Tell a peer, now and then, that its reads wait for its rate."""
        self.counters.throttled += 1
        if now - peer.told_at >= _TELL_EVERY_S:
            peer.told_at = now
            limits = peer.limits
            text = f"above {limits.bytes_s} bytes/s or {limits.frames_s} frames/s"
            self._tell(peer, StatusCode.RATE_LIMITED, text)

    def admit(
        self, admitted: Admitted, limits: Limits, keep_alive: KeepAlive, now: float
    ) -> Peer:
        """Make the state of a new connection; `enter` makes it reachable.

        `limits`: those of its welcome, which may be outdated already.
        """
        queue = DestinationQueue(lane_caps(limits), self.budget)
        outbox = Outbox(queue, queue_bytes=limits.queue_bytes)
        return Peer(admitted, limits, keep_alive, outbox, now)

    def apply(self, live: LiveSettings, now: float) -> Applied:
        """Go on by other settings; each peer whom they concern is told."""
        registry = self.registry
        peers = [*registry.active.values(), *registry.parked.values()]
        return self.terms.apply(live, peers, now)

    def enter(self, peer: Peer, now: float) -> None:
        """Make a connection reachable; an older one of its id is told and parked."""
        self.counters.admitted += 1
        self.terms.on_entered(peer, now)
        entered = self.registry.enter(peer, now)
        if entered.ended is not None:
            text = "replaced by two newer connections of this id"
            entered.ended.end(GoneReason.DISCONNECTED, 1008, text)
        if entered.older is None:
            for watcher in self.registry.watchers(peer.peer_id):
                watcher.outbox.forget_gone(peer.peer_id)
                self._tell_presence(watcher, (peer.peer_id,))
            return
        _hand_over(entered.older, peer)
        self._tell_markets(peer)
        text = "a newer connection has this id now"
        self._tell(entered.older, StatusCode.DUPLICATE_ID, text)

    def _tell_markets(self, peer: Peer) -> None:
        """An id has another connection now, which may come from elsewhere."""
        for watcher in self.registry.watchers(peer.peer_id):
            if watcher.is_market:
                self._tell_prefixes(watcher, (peer.peer_id,))
                watcher.wake()

    def leave(self, peer: Peer, reason: GoneReason, now: float) -> None:
        """Forget a connection; its frames are reported, and those concerned told."""
        concerned = self.registry.concerned(peer, now)
        left = self.registry.leave(peer)
        self.counters.left[reason] += 1
        if left.promoted is not None:
            _hand_over(peer, left.promoted)
            self._tell_markets(left.promoted)
            self._tell(left.promoted, StatusCode.OK, "this connection is active again")
            return
        self.report(peer.outbox.queue.empty())
        if left.was_active and not self.is_ending:
            for other in concerned:
                other.outbox.gone(peer.peer_id, reason)
                other.wake()

    def tick(self, now: float) -> None:
        """Do what time alone brings: pings, silence, parked peers, GONE that wait."""
        for peer in list(self.registry.active.values()):
            if peer.outbox.has_gone:
                peer.wake()
            peer.forget_old_contacts(now)
            self._keep_peer_alive(peer, now)
            self._end_slow_consumer(peer, now)
            self.terms.on_tick(peer, now)
        for peer in list(self.registry.parked.values()):
            self.terms.on_tick(peer, now)
            if peer.parked_until is not None and now >= peer.parked_until:
                text = "a newer connection has this id"
                self.registry.end_parked(peer)
                peer.end(GoneReason.DISCONNECTED, 1008, text)

    def excuse(self, now: float) -> None:
        """Give all peers their time anew: the relay itself stood still.

        What they wrote meanwhile still waits in the kernel; without this everybody who
        had been pinged would be lost before it is read.
        """
        for peer in self.registry.active.values():
            peer.moved_at = now
            if peer.pinged_at is not None:
                peer.pinged_at = now

    def _end_slow_consumer(self, peer: Peer, now: float) -> None:
        """End a peer that reads, but so slowly that all frames for it grow too old."""
        outbox = peer.outbox
        if outbox.n_takes != peer.n_takes_seen or not outbox.queue.n_bytes:
            peer.n_takes_seen = outbox.n_takes
            peer.moved_at = now
        elif now - peer.moved_at >= SLOW_CONSUMER_S:
            text = f"slow consumer: one batch in more than {SLOW_CONSUMER_S:g} s"
            peer.end(GoneReason.SLOW, 1008, text)

    def _keep_peer_alive(self, peer: Peer, now: float) -> None:
        if now - peer.last_read < peer.keep_alive.after_s:
            peer.pinged_at = None
        elif peer.pinged_at is None:
            peer.pinged_at = now
            peer.outbox.notice(_PING)
            peer.wake()
        elif now - peer.pinged_at >= peer.keep_alive.timeout_s:
            peer.end(GoneReason.SILENT, 1001, "no sign of life")


def _hand_over(older: Peer, newer: Peer) -> None:
    """Let the frames that wait for an id leave through its newer connection."""
    older.outbox.queue, newer.outbox.queue = newer.outbox.queue, older.outbox.queue
    newer.contacts.update(older.contacts)
    newer.wake()
