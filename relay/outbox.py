"""All that the relay has to write to one peer, in the order in which it leaves.

First the relay's own notices (pings, states, NACKs counted together per destination,
reason and flow, GONE at most 20 a second and behind the frames of the one that left),
then the frames of `DestinationQueue`. What leaves is ready for the wire: WebSocket
messages from a server are unmasked, a header and the bytes (RFC 6455, section 5.2). A
SEND becomes a RECV by a new header of the same 40 bytes; its payload is not copied
before the write.

Notices are bounded too: a peer that lets 4,096 kinds of NACK wait, 512 other notices,
or more bytes of them than two of its queues hold, does not read; `is_overrun` says so.
"""

import struct
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from relay.defaults import QUEUE_BYTES
from relay.frame_types import FrameType, Gone, GoneReason, Nack, NackReason
from relay.frames import DATA_HEADER, encode_frame
from relay.keys import PeerId
from relay.limits import Bucket
from relay.queues import DestinationQueue, Shed

__all__ = ["Batch", "Outbox", "websocket_header"]

_MAX_NOTICES: Final = 512
_MAX_NACK_KINDS: Final = 4096
_MAX_COUNT: Final = 0xFFFF
_GONE_PER_S: Final = 20.0
_FINAL_BINARY: Final = 0x82

_SHORT = struct.Struct("!BB")
_MEDIUM = struct.Struct("!BBH")
_LONG = struct.Struct("!BBQ")
# The usual size in one step: 4 B of WebSocket header and 40 B of RECV header.
_MEDIUM_RECV = struct.Struct("!BBHBBH4s32s")
_RECV = struct.Struct("!BBH4s32s")


def websocket_header(size: int) -> bytes:
    """Return the header of one unmasked binary message of `size` bytes."""
    if size < 126:
        return _SHORT.pack(_FINAL_BINARY, size)
    if size < 65536:
        return _MEDIUM.pack(_FINAL_BINARY, 126, size)
    return _LONG.pack(_FINAL_BINARY, 127, size)


def _recv_header(message: bytes, source: PeerId, age_ms: int) -> bytes:
    size = len(message)
    flags, flow = message[1], message[4:8]
    if 126 <= size < 65536:
        return _MEDIUM_RECV.pack(
            _FINAL_BINARY, 126, size, FrameType.RECV, flags, age_ms, flow, source
        )
    head = _RECV.pack(FrameType.RECV, flags, age_ms, flow, source)
    return websocket_header(size) + head


@dataclass(slots=True)
class Batch:
    """What one write carries, and what expired while it was put together.

    `age_ms`: how long its first frame has waited.
    """

    parts: list[bytes | memoryview] = field(default_factory=list)
    n_frames: int = 0
    n_bytes: int = 0
    age_ms: int = 0
    expired: list[Shed] = field(default_factory=list)


class Outbox:
    """Everything on its way to one connection."""

    __slots__ = (
        "_gone",
        "_gone_bucket",
        "_max_notice_bytes",
        "_n_notice_bytes",
        "_nacks",
        "_notices",
        "_pong",
        "n_takes",
        "queue",
    )

    def __init__(
        self, queue: DestinationQueue, *, queue_bytes: int = QUEUE_BYTES
    ) -> None:
        """Hold what waits for a peer whose limits say `queue_bytes`."""
        self.queue = queue
        self._max_notice_bytes = 2 * queue_bytes
        self._n_notice_bytes = 0
        self.n_takes = 0  # how often its writer came
        self._notices: deque[bytes] | None = None
        self._nacks: dict[tuple[PeerId, NackReason, int], int] = {}
        self._gone: dict[PeerId, GoneReason] = {}
        self._gone_bucket: Bucket | None = None
        self._pong: bytes | None = None

    def __bool__(self) -> bool:
        return bool(self.queue.n_bytes or self._has_notices)

    @property
    def _has_notices(self) -> bool:
        return bool(self._nacks or self._gone or self._notices or self._pong)

    @property
    def has_gone(self) -> bool:
        """Whether GONE frames wait for their turn."""
        return bool(self._gone)

    @property
    def is_overrun(self) -> bool:
        """Whether the peer lets notices pile up: it does not read."""
        n_notices = len(self._notices) if self._notices else 0
        return (
            len(self._nacks) > _MAX_NACK_KINDS
            or n_notices > _MAX_NOTICES
            or self._n_notice_bytes > self._max_notice_bytes
        )

    def notice(self, message: bytes) -> None:
        """Append a frame of the relay's own."""
        if self._notices is None:
            self._notices = deque()
        self._notices.append(message)
        self._n_notice_bytes += len(message)

    def pong(self, message: bytes) -> None:
        """Answer a ping; of several only the last is answered."""
        self._pong = message

    def nack(self, destination: PeerId, reason: NackReason, flow: int) -> None:
        """Tell the peer that one of its frames was dropped."""
        key = (destination, reason, flow)
        self._nacks[key] = self._nacks.get(key, 0) + 1

    def gone(self, peer: PeerId, reason: GoneReason) -> None:
        """Tell the peer that another one left."""
        self._gone[peer] = reason

    def forget_gone(self, peer: PeerId) -> None:
        """Take back a GONE that was not told yet: the peer is here again."""
        self._gone.pop(peer, None)

    def take(self, max_bytes: int, now: float) -> Batch:
        """Remove what is to be written next, of about `max_bytes`."""
        batch = Batch()
        self.n_takes += 1
        if self._has_notices:
            self._take_notices(batch, now)
        if self.queue.n_bytes:
            due, batch.expired = self.queue.take(max_bytes - batch.n_bytes, now)
            parts = batch.parts
            for message, source, age_ms in due:
                parts.append(_recv_header(message, source, age_ms))
                parts.append(memoryview(message)[DATA_HEADER.size :])
                batch.n_bytes += len(message)
            batch.n_frames = len(due)
            if due:
                batch.age_ms = due[0].age_ms
        return batch

    def _take_notices(self, batch: Batch, now: float) -> None:
        messages: list[bytes] = []
        if self._pong is not None:
            messages.append(self._pong)
            self._pong = None
        # GONE before PRESENCE: a peer that left and came back is here in the end.
        messages.extend(self._due_gone(now))
        if self._notices:
            messages.extend(self._notices)
            self._notices = None
            self._n_notice_bytes = 0
        messages.extend(self._all_nacks())
        for message in messages:
            batch.parts.append(websocket_header(len(message)))
            batch.parts.append(message)
            batch.n_bytes += len(message)

    def _due_gone(self, now: float) -> list[bytes]:
        due: list[bytes] = []
        if not self._gone:
            return due
        if self._gone_bucket is None:
            self._gone_bucket = Bucket(_GONE_PER_S, _GONE_PER_S, now)
        for peer in list(self._gone):
            # The last words of a peer come before the news that it left.
            if self.queue.holds_frames_of(peer):
                continue
            if not self._gone_bucket.try_take(1, now):
                break
            due.append(encode_frame(Gone(peer=peer, reason=self._gone.pop(peer))))
        return due

    def _all_nacks(self) -> list[bytes]:
        nacks, self._nacks = self._nacks, {}
        messages: list[bytes] = []
        for (destination, reason, flow), total in nacks.items():
            left = total
            while left:
                count = min(left, _MAX_COUNT)
                left -= count
                nack = Nack(
                    destination=destination,
                    reason=reason,
                    count=count,
                    flow=flow,
                    retry_ms=_RETRY_MS.get(reason, 0),
                )
                messages.append(encode_frame(nack))
        return messages


_RETRY_MS: Final = {
    NackReason.NOT_HERE: 1000,
    NackReason.GONE: 1000,
    NackReason.QUEUE_FULL: 100,
}
