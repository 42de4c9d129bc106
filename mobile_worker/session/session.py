"""The end-to-end session with one peer: a state machine of plain values, no I/O.

Its owner puts in messages (`add`), packets from links (`receive`) and time
(`on_time`), and takes out packets for any link (`next_packet`), answers that must go
back by the link that their cause came by (`replies`), and outcomes. New keys replace
the old ones when the first packet sealed with them has opened; the old ones open late
packets for 60 s more. A session belongs to no path; packets may be lost, doubled and
reordered.

A peer that knows nothing of our session says so without proof; that only makes us begin
a fresh handshake, at most once a second.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from mobile_worker.errors import ProtocolBreach, SealError
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.channel import Channel
from mobile_worker.session.flow import FIRST_WINDOW_BYTES
from mobile_worker.session.handshake import OwnSide
from mobile_worker.session.handshakes import Handshakes
from mobile_worker.session.outcomes import (
    Delivered,
    Established,
    Failed,
    Farewell,
    Outcome,
    ProbeAnswered,
)
from mobile_worker.session.packets import (
    MAX_PACKET_BYTES,
    SEALED_HEAD,
    STREAM_HEAD,
    TOKEN,
    FrameKind,
    Packet,
    PacketKind,
    class_at,
    parse_handshake,
    parse_stream,
    parse_unknown,
    unknown_packet,
)
from mobile_worker.session.pieces import Assembly, Outbox, parse_piece
from mobile_worker.session.records import PeerRecord
from relay.keys import PeerId

__all__ = ["Session"]

OLD_KEYS_S: Final = 60.0
_HINT_PAUSE_S = 1.0
_MAX_URGENT = 64  # a grant that finds no room is asked for again (BLOCKED)
_CROSSED_S = 2.0
_BLOCKED_FIRST_S = 0.25
_BLOCKED_LAST_S = 2.0
_CLASSES = tuple(MessageClass)
_BULK = MessageClass.BULK
_Told: TypeAlias = list[Outcome]
_Taker: TypeAlias = Callable[[Channel, bytes, _Told], None]


class Session:
    """One peer's keys, queues and credit."""

    def __init__(
        self, own: OwnSide, peer: PeerId, *, record: PeerRecord | None = None
    ) -> None:
        self.peer = peer
        self.record = record
        self.window_bytes = FIRST_WINDOW_BYTES
        self.max_window_bytes = FIRST_WINDOW_BYTES
        self.replies: list[bytes] = []
        self.n_proven = 0  # packets that only the peer can have made, just now
        self._begins_first = own.identity.peer_id < peer
        self._handshakes = Handshakes(own, peer, lambda: self.record)
        self._current: Channel | None = None
        self._old: list[tuple[float, Channel]] = []
        self._instance: bytes | None = None
        self._suspect = False
        self._raw: deque[bytes] = deque()
        self._urgent: deque[bytes] = deque()
        self._outbox = Outbox(own.waiting, int.from_bytes(own.random_bytes(4)))
        self._assembly = Assembly(own.shelf)
        self._waiting_bytes = [0 for _ in MessageClass]
        self._blocked_due = 0.0
        self._blocked_pause_s = _BLOCKED_FIRST_S
        self._next_hint_at = 0.0
        self._next_reaction_at = 0.0
        self._takers: dict[int, _Taker] = {
            FrameKind.WHOLE: self._take_whole,
            FrameKind.PIECE: self._take_piece,
            FrameKind.CREDIT: self._take_credit,
            FrameKind.BLOCKED: self._take_blocked,
            FrameKind.OPEN: self._take_sign,
            FrameKind.PROBE: self._take_probe,
            FrameKind.PROBED: self._take_probe,
            FrameKind.GOODBYE: self._take_sign,
        }

    @property
    def established(self) -> bool:
        """Whether messages can be sent at once."""
        return self._current is not None and not self._suspect

    @property
    def session_id(self) -> bytes | None:
        """The handshake hash of the keys in use."""
        return None if self._current is None else self._current.session_id

    @property
    def needs_time(self) -> bool:
        """Whether `on_time` has something to wait for."""
        return self._outbox.n_bytes > 0 or self._handshakes.offering

    @property
    def n_offers(self) -> int:
        """How often our handshake under way was offered; 0 without one."""
        return self._handshakes.n_sent

    @property
    def has_packets(self) -> bool:
        """Whether anything waits to be sent, keys and credit permitting."""
        return bool(self._raw or self._urgent or self._outbox.n_bytes)

    @property
    def queued_bytes(self) -> int:
        """Bytes of messages that wait to be sent."""
        return self._outbox.n_bytes

    def add(self, message: bytes, message_class: MessageClass) -> None:
        """Queue a message; raises SendQueueFull."""
        self._outbox.add(message, message_class)

    def begin(self, now: float, *, again: bool = False) -> None:
        """Begin a handshake though nothing waits; `again` though there are keys."""
        if (again or not self.established) and self._handshakes.may_begin(now):
            self._raw.append(self._handshakes.begin(now))

    def suspect(self) -> None:
        """Prove the peer anew before the next message: it was reported gone."""
        self._suspect = True

    def drop(self) -> int:
        """Give up handshake and queue; return the number of messages dropped."""
        self._handshakes.withdraw()
        self._raw.clear()
        return self._outbox.clear()

    def close(self) -> None:
        """Give back all that this session holds; it is not used again."""
        self.drop()
        self._assembly.clear()

    def next_packet(self, now: float, least: MessageClass = _BULK) -> Packet | None:
        """Return the next packet to send, none less urgent than `least`."""
        channel = None if self._suspect else self._current
        if self._raw:
            return Packet(MessageClass.CONTROL, self._raw.popleft())
        wanted = self._outbox.n_bytes > 0 if channel is None else channel.is_worn(now)
        if wanted and self._handshakes.may_begin(now):
            return Packet(MessageClass.CONTROL, self._handshakes.begin(now))
        if channel is None:
            return None
        if self._urgent:
            return Packet(MessageClass.CONTROL, channel.seal(self._urgent.popleft()))
        cut = self._outbox.next_frame(channel.flow, least)
        return None if cut is None else Packet(cut[0], channel.seal(cut[1]))

    def receive(self, packet: bytes, now: float) -> list[Outcome]:
        """Take a packet from a link.

        Raises:
            SealError, HandshakeError: the packet proves nothing; nothing changed.
            ProtocolBreach: the peer itself broke a rule.
        """
        if not 0 < len(packet) <= MAX_PACKET_BYTES:
            raise SealError(f"a packet of {len(packet)} bytes", peer=self.peer)
        if packet[0] == PacketKind.SEALED:
            return self._receive_sealed(packet, now)
        if packet[0] == PacketKind.UNKNOWN:
            self._heed_hint(parse_unknown(packet), now)
            return []
        handshake = parse_handshake(packet)
        answer, result = self._handshakes.take(handshake, now)
        if answer is not None:
            self.replies.append(answer)
        if result is None:
            return []
        self.n_proven += 1
        outcome = self._switch(result.channel, result.record, now)
        self._urgent.appendleft(bytes((FrameKind.OPEN,)))
        return [outcome]

    def consumed(self, message_class: MessageClass, n_bytes: int) -> bool:
        """Note that our owner took a message; tell whether a grant is to be sent."""
        self._waiting_bytes[message_class] -= n_bytes
        return self._grant(message_class, force=False)

    def set_window(self, window_bytes: int, max_window_bytes: int) -> None:
        """Set how much we take unconsumed by the present path, and what it may become.

        The window doubles up to the latter whenever it is what holds the peer back. If
        it is narrower than before, what either side may send shrinks to it as well.
        """
        narrower = max_window_bytes < self.max_window_bytes
        self.window_bytes = window_bytes
        self.max_window_bytes = max(window_bytes, max_window_bytes)
        if self._current is None:
            return
        for message_class in _CLASSES:
            if narrower:
                self._current.flow.narrow(message_class, window_bytes)
            self._grant(message_class, force=narrower)

    def probe(self, token: int) -> bytes | None:
        """Return a packet that asks for an answer by the same link, if keys exist."""
        channel, frame = self._current, TOKEN.pack(FrameKind.PROBE, token)
        return None if channel is None else channel.seal(frame)

    def farewell(self) -> bytes | None:
        """Return a packet that says that our process ends, if keys exist."""
        channel, frame = self._current, bytes((FrameKind.GOODBYE,))
        return None if channel is None else channel.seal(frame)

    def on_time(self, now: float) -> list[Outcome]:
        """Repeat what is due; call a few times a second while `needs_time`."""
        packet, gave_up = self._handshakes.repeat(now)
        if packet is not None:
            self._raw.append(packet)
        if gave_up and (self._current is None or self._suspect):
            return [Failed(self.drop())]
        channel = self._current
        if channel is not None and not self._suspect and now >= self._blocked_due:
            self._say_blocked(channel, now)
        return []

    def _receive_sealed(self, packet: bytes, now: float) -> list[Outcome]:
        if len(packet) < SEALED_HEAD.size:
            raise SealError("a packet is cut short", peer=self.peer)
        index = int.from_bytes(packet[1:5], "big")
        channel = self._current
        outcomes: list[Outcome] = []
        if channel is None or channel.local != index:
            channel = self._find(index, now)
            if channel is None:
                self._hint(index, now)
                return outcomes
            frame = channel.open(packet)
            record = self._handshakes.confirm(channel)
            if record is not None:
                outcomes.append(self._switch(channel, record, now))
            else:
                self._straighten(now)
        else:
            frame = channel.open(packet)
        self._suspect = False
        self.n_proven += 1
        self._take_frame(channel, frame, outcomes)
        return outcomes

    def _straighten(self, now: float) -> None:
        """Begin anew if the peer goes on with old keys long after we changed ours.

        That is what remains if both began at once and packets crossed badly; the side
        with the greater id leaves the first move to the other.
        """
        current = self._current
        patience_s = _CROSSED_S * (1 if self._begins_first else 2)
        if current is not None and now - current.opened_at > patience_s:
            self._begin_again(now)

    def _begin_again(self, now: float) -> None:
        if now >= self._next_reaction_at and self._handshakes.may_begin(now):
            self._next_reaction_at = now + _HINT_PAUSE_S
            self._raw.append(self._handshakes.begin(now))

    def _find(self, index: int, now: float) -> Channel | None:
        found = self._handshakes.unconfirmed(index)
        if found is not None:
            return found
        self._old = [(until, old) for until, old in self._old if until > now]
        return next((old for _, old in self._old if old.local == index), None)

    def _switch(self, channel: Channel, record: PeerRecord, now: float) -> Established:
        if self._current is not None:
            self._old.append((now + OLD_KEYS_S, self._current))
        changed = self._instance not in (None, channel.instance)
        restarted = changed and not self._suspect
        n_dropped = self._outbox.clear() if restarted else 0
        if changed:
            self._assembly.clear()
            self._old.clear()
        self._current = channel
        self._urgent.clear()  # its offsets are those of the old keys
        self._instance = channel.instance
        self._suspect = False
        self._blocked_pause_s = _BLOCKED_FIRST_S
        if self.record is None or self.record.sequence <= record.sequence:
            self.record = record
        for message_class in _CLASSES:
            self._grant(message_class, force=False)
        return Established(record, restarted, n_dropped)

    def _take_frame(self, channel: Channel, frame: bytes, told: _Told) -> None:
        take = self._takers.get(frame[0]) if frame else None
        if take is None:
            raise ProtocolBreach(f"unknown frame {frame[:1].hex()}", peer=self.peer)
        try:
            take(channel, frame, told)
        except ProtocolBreach as breach:
            breach.peer = self.peer
            raise

    def _take_whole(self, channel: Channel, frame: bytes, told: _Told) -> None:
        if len(frame) <= STREAM_HEAD.size:
            raise ProtocolBreach("a frame without a message")
        _, number, offset = STREAM_HEAD.unpack_from(frame)
        message_class = class_at(number)
        message = frame[STREAM_HEAD.size :]
        self._arrived(channel, message_class, offset + len(message))
        self._waiting_bytes[message_class] += len(message)
        told.append(Delivered(message, message_class))

    def _take_piece(self, channel: Channel, frame: bytes, told: _Told) -> None:
        piece = parse_piece(frame)
        message_class = piece.message_class
        self._arrived(channel, message_class, piece.stream_end)
        message = self._assembly.add(piece)
        if message is not None:
            self._waiting_bytes[message_class] += len(message)
            told.append(Delivered(message, message_class))
        self._grant(message_class, force=False)

    def _arrived(self, channel: Channel, message_class: MessageClass, end: int) -> None:
        receiving = channel.flow.receiving[message_class]
        if end > receiving.granted:
            raise ProtocolBreach(f"{end} bytes, above the credit")
        receiving.arrived(end)

    def _take_credit(self, channel: Channel, frame: bytes, _told: _Told) -> None:
        message_class, limit = parse_stream(frame)
        sending = channel.flow.sending[message_class]
        sending.limit = max(sending.limit, limit)
        self._blocked_pause_s = _BLOCKED_FIRST_S

    def _take_probe(self, channel: Channel, frame: bytes, told: _Told) -> None:
        if len(frame) != TOKEN.size:
            raise ProtocolBreach(f"a probe of {len(frame)} bytes")
        kind, token = TOKEN.unpack(frame)
        if kind == FrameKind.PROBED:
            told.append(ProbeAnswered(token))
        else:
            self.replies.append(channel.seal(TOKEN.pack(FrameKind.PROBED, token)))

    def _take_sign(self, _channel: Channel, frame: bytes, told: _Told) -> None:
        if frame[0] == FrameKind.GOODBYE:
            told.append(Farewell())

    def _take_blocked(self, channel: Channel, frame: bytes, _told: _Told) -> None:
        message_class, offset = parse_stream(frame)
        self._arrived(channel, message_class, offset)
        if not self._waiting_bytes[message_class]:
            doubled = 2 * self.window_bytes
            self.window_bytes = min(self.max_window_bytes, doubled)
        self._grant(message_class, force=True)

    def _grant(self, message_class: MessageClass, *, force: bool) -> bool:
        if self._current is None or len(self._urgent) >= _MAX_URGENT:
            return False
        limit = self._current.flow.receiving[message_class].grant(
            self.window_bytes, self._waiting_bytes[message_class], force=force
        )
        if limit is None:
            return False
        self._urgent.append(STREAM_HEAD.pack(FrameKind.CREDIT, message_class, limit))
        return True

    def _say_blocked(self, channel: Channel, now: float) -> None:
        blocked = self._outbox.blocked(channel.flow)
        if not blocked:
            return
        for message_class in blocked:
            offset = channel.flow.sending[message_class].offset
            frame = STREAM_HEAD.pack(FrameKind.BLOCKED, message_class, offset)
            self._urgent.append(frame)
        self._blocked_due = now + self._blocked_pause_s
        self._blocked_pause_s = min(2 * self._blocked_pause_s, _BLOCKED_LAST_S)

    def _hint(self, index: int, now: float) -> None:
        if now >= self._next_hint_at:
            self._next_hint_at = now + _HINT_PAUSE_S / 4
            self.replies.append(unknown_packet(index))

    def _heed_hint(self, index: int, now: float) -> None:
        channel = self._current
        if channel is not None and channel.remote == index:
            self._begin_again(now)
