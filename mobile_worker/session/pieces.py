"""Messages cut into frames, and frames put together again.

`Outbox` holds what waits, by class: control goes before interactive, interactive before
bulk, at every frame. `Assembly` puts pieces together; what one peer can make it hold is
bounded by 64 MiB for each of two unfinished messages a class.

What all peers of a process together can make it hold is bounded too. Of unfinished
messages the one that got no piece for longest goes first (`Shelf`). Of what waits to be
sent, `Waiting` gives each peer an equal share once the whole is full.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from mobile_worker.errors import ProtocolBreach, SendQueueFull
from mobile_worker.messages.classes import MessageClass
from mobile_worker.messages.envelope import MAX_MESSAGE_BYTES
from mobile_worker.session.flow import Flow, Sending
from mobile_worker.session.packets import (
    MAX_BULK_PIECE_BYTES,
    MAX_PIECE_BYTES,
    PIECE_HEAD,
    STREAM_HEAD,
    FrameKind,
    class_at,
)

__all__ = [
    "MAX_QUEUED_BYTES",
    "Assembly",
    "Outbox",
    "Piece",
    "Shelf",
    "Waiting",
    "parse_piece",
]

MAX_QUEUED_BYTES = 256 << 20
_MAX_WAITING_BYTES = 512 << 20  # for all peers
_MIN_SHARE_BYTES = 64 << 10
_MAX_SHELF_BYTES = 256 << 20  # of all peers
_MAX_QUEUED_MESSAGES = 20_000
_MAX_UNFINISHED = 2  # a class; more than one only if packets overtake each other
_MIN_PIECE_BYTES = 1024
_CLASSES = tuple(MessageClass)
_LARGEST = {
    MessageClass.CONTROL: MAX_PIECE_BYTES,
    MessageClass.INTERACTIVE: MAX_PIECE_BYTES,
    MessageClass.BULK: MAX_BULK_PIECE_BYTES,
}


@dataclass(slots=True)
class _Waiting:
    message: bytes
    number: int
    n_cut: int = 0


@dataclass(slots=True)
class Waiting:
    """What waits to be sent to all peers of a process.

    Above `max_bytes` no peer may have more than an equal share of them: one that takes
    nothing costs the others nothing, and many of them cost little more than one.
    """

    max_bytes: int = _MAX_WAITING_BYTES
    n_bytes: int = 0
    n_peers: int = 0  # with something waiting

    def limit(self, n_more: int) -> int:
        """Return how much one peer may have waiting, if `n_more` bytes come."""
        if self.n_bytes + n_more <= self.max_bytes:
            return MAX_QUEUED_BYTES
        return max(_MIN_SHARE_BYTES, self.max_bytes // max(1, self.n_peers))

    def changed(self, before: int, after: int) -> None:
        """Note that what waits for one peer went from so many bytes to so many."""
        self.n_bytes += after - before
        self.n_peers += (after > 0) - (before > 0)


class Outbox:
    """Messages on their way out, cut as credit allows."""

    def __init__(self, waiting: Waiting | None = None, first_number: int = 0) -> None:
        """Count what waits in `waiting` too, with that of other peers.

        first_number: of the first message, u32. One drawn at random is not that of a
        message that the peer has in part from a session that we forgot.
        """
        self.n_bytes = 0
        self._all = Waiting() if waiting is None else waiting
        self._queues: tuple[deque[_Waiting], ...] = tuple(deque() for _ in MessageClass)
        self._next_number = first_number

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues)

    def add(self, message: bytes, message_class: MessageClass) -> None:
        """Queue a message.

        Raises:
            SendQueueFull: there is no room for it.
        """
        if (
            self.n_bytes + len(message) > self._all.limit(len(message))
            or len(self._queues[message_class]) >= _MAX_QUEUED_MESSAGES
        ):
            raise SendQueueFull(f"{self.n_bytes} bytes wait for this peer already")
        number = self._next_number
        self._next_number = (number + 1) & 0xFFFF_FFFF
        self._queues[message_class].append(_Waiting(message, number))
        self._resize(self.n_bytes + len(message))

    def clear(self) -> int:
        """Drop everything and return how many messages that were."""
        n = len(self)
        for queue in self._queues:
            queue.clear()
        self._resize(0)
        return n

    def next_frame(
        self, flow: Flow, least: MessageClass = MessageClass.BULK
    ) -> tuple[MessageClass, bytes] | None:
        """Return the next frame that has credit, and account for it.

        least: the least urgent class that is wanted.
        """
        if not self.n_bytes:
            return None
        for message_class in _CLASSES:
            if self._queues[message_class] and message_class <= least:
                frame = self._cut(message_class, flow.sending[message_class])
                if frame is not None:
                    return message_class, frame
        return None

    def blocked(self, flow: Flow) -> list[MessageClass]:
        """Return the classes in which something waits for credit."""
        return [
            message_class
            for message_class, queue in zip(MessageClass, self._queues, strict=True)
            if queue and flow.sending[message_class].available < _piece(queue[0])
        ]

    def _cut(self, message_class: MessageClass, sending: Sending) -> bytes | None:
        queue = self._queues[message_class]
        waiting = queue[0]
        n_left = len(waiting.message) - waiting.n_cut
        n = min(n_left, _LARGEST[message_class], sending.available)
        if n < n_left and n < _piece(waiting):
            return None
        offset = sending.offset
        sending.offset = offset + n
        self._resize(self.n_bytes - n)
        if n == len(waiting.message):
            head = STREAM_HEAD.pack(FrameKind.WHOLE, message_class, offset)
        else:
            head = PIECE_HEAD.pack(
                FrameKind.PIECE,
                message_class,
                offset,
                waiting.number,
                len(waiting.message),
                waiting.n_cut,
            )
        piece = waiting.message[waiting.n_cut : waiting.n_cut + n]
        waiting.n_cut += n
        if n == n_left:
            queue.popleft()
        return head + piece

    def _resize(self, n_bytes: int) -> None:
        self._all.changed(self.n_bytes, n_bytes)
        self.n_bytes = n_bytes


def _piece(waiting: _Waiting) -> int:
    """Return the least that is worth cutting off."""
    return min(_MIN_PIECE_BYTES, len(waiting.message) - waiting.n_cut)


class Piece(NamedTuple):
    """A PIECE frame taken apart; `stream_end`: the stream offset behind it."""

    message_class: MessageClass
    number: int
    total: int
    offset: int
    content: memoryview
    stream_end: int = 0


def parse_piece(frame: bytes) -> Piece:
    """Take a PIECE frame apart, or raise ProtocolBreach."""
    if len(frame) <= PIECE_HEAD.size:
        raise ProtocolBreach("a frame without a piece")
    _, number_of_class, offset, number, total, at = PIECE_HEAD.unpack_from(frame)
    content = memoryview(frame)[PIECE_HEAD.size :]
    end = offset + len(content)
    return Piece(class_at(number_of_class), number, total, at, content, end)


@dataclass(slots=True, eq=False)
class _Unfinished:
    total: int
    number: int
    home: dict[int, "_Unfinished"]
    n_arrived: int = 0
    pieces: dict[int, bytes] = field(default_factory=dict)


class Shelf:
    """Unfinished messages of all peers of a process, the most recently fed last."""

    def __init__(self, max_bytes: int = _MAX_SHELF_BYTES) -> None:
        """Hold at most `max_bytes`, or one message."""
        self.n_bytes = 0
        self._max_bytes = max_bytes
        self._messages: OrderedDict[_Unfinished, None] = OrderedDict()

    def fed(self, message: _Unfinished, n_bytes: int) -> None:
        """Note that a message grew; the one that waits longest may go for it."""
        self.n_bytes += n_bytes
        message.n_arrived += n_bytes
        self._messages[message] = None
        self._messages.move_to_end(message)
        while self.n_bytes > self._max_bytes and len(self._messages) > 1:
            self.drop(next(iter(self._messages)))

    def drop(self, message: _Unfinished) -> None:
        """Take a message off the shelf and out of its peer's."""
        if message in self._messages:
            del self._messages[message]
            self.n_bytes -= message.n_arrived
        message.home.pop(message.number, None)


class Assembly:
    """Unfinished messages of one peer."""

    def __init__(self, shelf: Shelf | None = None) -> None:
        """Keep what is unfinished on `shelf`, with that of other peers."""
        self._shelf = Shelf() if shelf is None else shelf
        self._unfinished: tuple[dict[int, _Unfinished], ...] = tuple(
            {} for _ in MessageClass
        )

    def clear(self) -> None:
        """Drop all unfinished messages."""
        for messages in self._unfinished:
            for message in tuple(messages.values()):
                self._shelf.drop(message)

    def add(self, piece: Piece) -> bytes | None:
        """Take a piece, in any order; return the message if it is complete now.

        A message with a lost piece is dropped when later ones need its place.

        Raises:
            ProtocolBreach: the piece contradicts its bounds or an earlier one.
        """
        n = len(piece.content)
        end = piece.offset + n
        if not end <= piece.total <= MAX_MESSAGE_BYTES:
            raise ProtocolBreach(f"a piece up to {end} of {piece.total} bytes")
        if n < _MIN_PIECE_BYTES and (end < piece.total or not n):
            raise ProtocolBreach(f"a piece of {n} bytes")
        messages = self._unfinished[piece.message_class]
        found = messages.get(piece.number)
        if found is None:
            while len(messages) >= _MAX_UNFINISHED:
                self._shelf.drop(messages[next(iter(messages))])
            found = _Unfinished(piece.total, piece.number, messages)
            messages[piece.number] = found
        if found.total != piece.total or piece.offset in found.pieces:
            self._shelf.drop(found)
            raise ProtocolBreach(f"piece {piece.offset} contradicts an earlier one")
        found.pieces[piece.offset] = bytes(piece.content)
        self._shelf.fed(found, n)
        if found.n_arrived < piece.total:
            return None
        self._shelf.drop(found)
        return _join(found)


def _join(message: _Unfinished) -> bytes:
    at = 0
    parts = []
    for offset in sorted(message.pieces):
        if offset != at:
            raise ProtocolBreach(f"a gap or an overlap at {offset}")
        parts.append(message.pieces[offset])
        at += len(parts[-1])
    return b"".join(parts)
