"""What a peer has yet to send to its relay: bounded, by class, by age. No I/O in here.

Control leaves first, then interactive; bulk gets at least a tenth of the bytes while it
waits. A full queue refuses (`SendQueueFull`) and drops nothing; the last part of it is
kept for control. A frame that outlives its time here never leaves: it is reported.
"""

from collections import deque
from dataclasses import dataclass, replace

from relay.defaults import MAX_TTL_MS
from relay.errors import FrameRefused, PayloadTooLarge, SendQueueFull
from relay.events import Nacked
from relay.frame_types import FrameClass, NackReason, Send
from relay.frames import DATA_HEADER, MAX_PAYLOAD_BYTES, encode_frame
from relay.keys import PEER_ID_BYTES
from relay.queues import BulkShare

__all__ = ["SendQueue", "Taken"]

_CONTROL_RESERVE_BYTES = 64 * 1024


@dataclass(slots=True)
class Taken:
    """Frames to write now, and those that expired before."""

    frames: list[bytes]
    expired: list[Nacked]


class SendQueue:
    """Frames of one connection on their way out."""

    __slots__ = ("_lanes", "_max_bytes", "_share", "n_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lanes: tuple[deque[tuple[Send, float]], ...] = (deque(), deque(), deque())
        self._share = BulkShare()
        self.n_bytes = 0

    def __bool__(self) -> bool:
        return self.n_bytes > 0

    @property
    def is_low(self) -> bool:
        """Whether less than half of the room is used."""
        return self.n_bytes * 2 < self._max_bytes

    def put(self, frame: Send, now: float) -> None:
        """Append a frame.

        Raises:
            FrameRefused: destination, flow or time to live is out of range.
            PayloadTooLarge: the payload is above 65,535 bytes.
            SendQueueFull: there is no room for it now.
        """
        if len(frame.destination) != PEER_ID_BYTES or not 0 <= frame.flow < 2**32:
            raise FrameRefused(
                f"destination of {len(frame.destination)} bytes, flow {frame.flow}"
            )
        if not 0 < frame.ttl_ms <= MAX_TTL_MS:
            raise FrameRefused(f"time to live of {frame.ttl_ms} ms")
        if len(frame.payload) > MAX_PAYLOAD_BYTES:
            raise PayloadTooLarge(
                f"payload of {len(frame.payload)} bytes, above {MAX_PAYLOAD_BYTES}"
            )
        size = DATA_HEADER.size + len(frame.payload)
        room = self._max_bytes
        if frame.frame_class is FrameClass.CONTROL:
            room += _CONTROL_RESERVE_BYTES
        if self.n_bytes + size > room:
            raise SendQueueFull(f"send queue holds {self.n_bytes} bytes")
        self._lanes[frame.frame_class].append((frame, now))
        self.n_bytes += size

    def take(self, max_bytes: int, now: float) -> Taken:
        """Remove frames of together about `max_bytes`, at least one if there is any."""
        taken = Taken([], [])
        left = max_bytes
        while left > 0 and self.n_bytes:
            frame, queued_at = self._next_lane().popleft()
            size = DATA_HEADER.size + len(frame.payload)
            self.n_bytes -= size
            waited_ms = int((now - queued_at) * 1000)
            if waited_ms >= frame.ttl_ms:
                taken.expired.append(_expired(frame))
                continue
            if waited_ms:
                frame = replace(frame, ttl_ms=frame.ttl_ms - waited_ms)
            taken.frames.append(encode_frame(frame))
            left -= size
        return taken

    def _next_lane(self) -> deque[tuple[Send, float]]:
        control, interactive, bulk = self._lanes
        if control:
            return control
        if not bulk:
            return interactive
        if not interactive:
            self._share.rest()
            return bulk
        size = DATA_HEADER.size + len(bulk[0][0].payload)
        if self._share.is_due(size):
            return bulk
        self._share.add(DATA_HEADER.size + len(interactive[0][0].payload))
        return interactive


def _expired(frame: Send) -> Nacked:
    return Nacked(
        destination=frame.destination,
        reason=NackReason.EXPIRED,
        count=1,
        flow=frame.flow,
        retry_ms=0,
    )
