"""What came from the relay and was not read yet: bounded in bytes, for one reader.

A full inbox means that the owner does not read: the connection then stops reading too,
which the relay notices. The end (an exception) comes after everything that was received
before it, and stays.

`take_each` is the quick way to read: while its task waits, a message is taken within
the task that brought it, which saves a turn of the scheduler.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable

from relay.errors import ConnectionLost, ProtocolError
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
from relay.frame_types import (
    FrameClass,
    FrameType,
    Gone,
    Limits,
    Nack,
    Ping,
    Pong,
    Presence,
    Restarting,
    SeenFrom,
    Status,
)
from relay.frames import CLASS_MASK, DATA_HEADER, parse_frame
from relay.keys import PeerId
from relay.streams import Wakeup

__all__ = ["Inbox"]

_MAX_BYTES = 4 * 1024 * 1024
_EVENT_BYTES = 200  # a guess at what an event costs beside its payload
_RECV = bytes([FrameType.RECV])
_CLASSES = tuple(FrameClass)


class Inbox(AsyncIterator[Event]):
    """Events in the order in which they came."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._events: deque[Event] = deque()
        self._n_bytes = 0
        self._max_bytes = max_bytes
        self._arrived = Wakeup()
        self._room = Wakeup()
        self._end: ConnectionLost | None = None
        self._take: Callable[[Event], None] | None = None  # while it may be called
        self._error: Exception | None = None

    @property
    def is_full(self) -> bool:
        """Whether the connection should stop reading."""
        return self._n_bytes > self._max_bytes

    async def wait_room(self) -> None:
        """Wait until the owner has read half of what waits."""
        while self.is_full:
            await self._room.wait()

    def put(self, event: Event) -> None:
        """Append an event."""
        self._n_bytes += _cost(event)
        self._events.append(event)
        self._arrived.set()

    def put_message(self, raw: bytes) -> Pong | None:
        """Append what a message tells; return the answer it wants, if any.

        Raises:
            ProtocolError: not a frame that a relay sends.
        """
        if raw[:1] == _RECV and len(raw) >= DATA_HEADER.size:
            _, flags, age_ms, flow, source = DATA_HEADER.unpack_from(raw)
            if flags & CLASS_MASK < len(_CLASSES):
                frame_class = _CLASSES[flags & CLASS_MASK]
                payload = raw[DATA_HEADER.size :]
                self._hand(Received(PeerId(source), payload, frame_class, flow, age_ms))
                return None
        frame = parse_frame(raw)
        if isinstance(frame, Ping):
            return Pong(nonce=frame.nonce)
        if frame is None or isinstance(frame, Pong):
            return None
        self._hand(_event(frame, raw[0]))
        return None

    def _hand(self, event: Event) -> None:
        """Have an event taken now if its turn is now; else it waits."""
        take = self._take
        if take is None or self._events or self._end is not None:
            self.put(event)
            return
        self._take = None  # what it causes waits for its turn
        try:
            take(event)
        except Exception as error:  # noqa: BLE001  # the reader's, raised there
            self._error = error
            self._arrived.set()
        else:
            self._take = take

    def end(self, reason: ConnectionLost) -> None:
        """No more will come: the iteration ends by raising `reason`."""
        self._end = reason
        self._arrived.set()
        self._room.set()

    async def take_each(self, take: Callable[[Event], None]) -> None:
        """Call `take`, which may not wait, with each event, for ever.

        What `take` raises ends this, wherever it was called.

        Raises:
            ConnectionLost: the connection ended and everything was taken.
        """
        while True:
            take(await self._next(take))

    async def __anext__(self) -> Event:
        """Return the next event.

        Raises:
            ConnectionLost: the connection ended and everything was read.
        """
        return await self._next(None)

    async def _next(self, take: Callable[[Event], None] | None) -> Event:
        while not self._events:
            if self._end is not None:
                raise ConnectionLost(self._end.reason)
            self._take = take
            try:
                await self._arrived.wait()
            finally:
                self._take = None
            if self._error is not None:
                raise self._error
        event = self._events.popleft()
        was_full = self.is_full
        self._n_bytes -= _cost(event)
        if was_full and not self.is_full:
            self._room.set()
        return event


def _cost(event: Event) -> int:
    return _EVENT_BYTES + (len(event.payload) if isinstance(event, Received) else 0)


def _event(frame: object, kind: int) -> Event:
    match frame:
        case Nack(destination=peer, reason=why, count=n, flow=flow, retry_ms=ms):
            return Nacked(peer, why, n, flow, ms)
        case Gone() | Presence() | SeenFrom():
            return _event_of_peers(frame)
        case Status(code=code, text=text):
            return RelayStatus(code, text)
        case Limits():
            return RelayLimits(frame)
        case Restarting(reconnect_in_ms=wait, try_for_ms=try_for):
            return RelayRestarting(wait, try_for)
        case _:
            raise ProtocolError(f"a relay sends no frame of type {kind:#04x}")


def _event_of_peers(frame: Gone | Presence | SeenFrom) -> Event:
    match frame:
        case Gone(peer=peer, reason=reason):
            return PeerGone(peer, reason)
        case Presence(states=states):
            return PeerPresence(states)
        case SeenFrom(prefixes=prefixes):
            return PeersSeenFrom(prefixes)
