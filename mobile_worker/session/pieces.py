"""Messages cut into frames, and frames put together again.

`Outbox` holds what waits, by class: control goes before interactive, interactive before
bulk, at every frame. `Assembly` puts pieces together; what one peer can make it hold is
bounded by 64 MiB for each of two unfinished messages a class.
"""

from collections import deque
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

__all__ = ["MAX_QUEUED_BYTES", "Assembly", "Outbox", "Piece", "parse_piece"]

MAX_QUEUED_BYTES = 256 << 20
_MAX_QUEUED_MESSAGES = 20_000
_MAX_UNFINISHED = 2  # a class; more than one only if packets overtake each other
_MIN_PIECE_BYTES = 1024
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


class Outbox:
    """Messages on their way out, cut as credit allows."""

    def __init__(self) -> None:
        self.n_bytes = 0
        self._queues: tuple[deque[_Waiting], ...] = tuple(deque() for _ in MessageClass)
        self._next_number = 0

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues)

    def add(self, message: bytes, message_class: MessageClass) -> None:
        """Queue a message.

        Raises:
            SendQueueFull: there is no room for it.
        """
        if (
            self.n_bytes + len(message) > MAX_QUEUED_BYTES
            or len(self._queues[message_class]) >= _MAX_QUEUED_MESSAGES
        ):
            raise SendQueueFull(f"{self.n_bytes} bytes wait for this peer already")
        number = self._next_number
        self._next_number = (number + 1) & 0xFFFF_FFFF
        self._queues[message_class].append(_Waiting(message, number))
        self.n_bytes += len(message)

    def clear(self) -> int:
        """Drop everything and return how many messages that were."""
        n = len(self)
        for queue in self._queues:
            queue.clear()
        self.n_bytes = 0
        return n

    def next_frame(self, flow: Flow) -> tuple[MessageClass, bytes] | None:
        """Return the next frame that has credit, and account for it."""
        for message_class in MessageClass:
            if self._queues[message_class]:
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
        self.n_bytes -= n
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


@dataclass(slots=True)
class _Unfinished:
    total: int
    n_arrived: int = 0
    pieces: dict[int, bytes] = field(default_factory=dict)


class Assembly:
    """Unfinished messages of one peer."""

    def __init__(self) -> None:
        self._unfinished: tuple[dict[int, _Unfinished], ...] = tuple(
            {} for _ in MessageClass
        )

    def clear(self) -> None:
        """Drop all unfinished messages."""
        for messages in self._unfinished:
            messages.clear()

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
                del messages[next(iter(messages))]
            found = messages[piece.number] = _Unfinished(piece.total)
        if found.total != piece.total or piece.offset in found.pieces:
            del messages[piece.number]
            raise ProtocolBreach(f"piece {piece.offset} contradicts an earlier one")
        found.pieces[piece.offset] = bytes(piece.content)
        found.n_arrived += n
        if found.n_arrived < piece.total:
            return None
        del messages[piece.number]
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
