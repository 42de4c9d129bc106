"""What a direct link has yet to write: packets in three lanes, one a class. No I/O.

Control leaves first, then interactive; bulk gets at least a tenth of the bytes while it
waits, as at the relay. Within a class the order stays. A lane that is full says so
(`open_to`) and the session keeps what it has, so that a packet is sealed shortly before
it leaves: few packets can overtake it, far fewer than the replay window forgives.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.packets import Packet
from relay.queues import BulkShare

__all__ = ["Lanes"]

_MAX_LANE_BYTES: Final = (256 << 10, 256 << 10, 128 << 10)
_MAX_LANE_PACKETS: Final = (256, 256, 64)
_MAX_ANSWER_BYTES: Final = 1 << 20  # above this answers to what the peer sends are lost


class Lanes:
    """Packets of one link on their way out."""

    __slots__ = ("_lanes", "_n_bytes_of", "_share", "n_bytes")

    def __init__(self) -> None:
        self._lanes: tuple[deque[Packet], ...] = tuple(deque() for _ in MessageClass)
        self._n_bytes_of = [0 for _ in MessageClass]
        self._share = BulkShare()
        self.n_bytes = 0

    def __bool__(self) -> bool:
        return self.n_bytes > 0

    @property
    def open_to(self) -> MessageClass | None:
        """The least urgent class that should be put in now; None if no class."""
        if not self.n_bytes:
            return MessageClass.BULK
        least = None
        for message_class in MessageClass:
            if self._is_full(message_class):
                break
            least = message_class
        return least

    @property
    def crowded(self) -> bool:
        """Whether even answers to what the peer sends find no room."""
        return self.n_bytes >= _MAX_ANSWER_BYTES

    def put(self, packet: Packet) -> None:
        """Append a packet to its lane, even to a full one."""
        self._lanes[packet.message_class].append(packet)
        self._count(packet, 1)

    def put_back(self, packets: Sequence[Packet]) -> None:
        """Undo the last `take` for these packets, which were its last."""
        for packet in reversed(packets):
            self._lanes[packet.message_class].appendleft(packet)
            self._count(packet, 1)

    def take(self, max_packets: int, max_bytes: int) -> list[Packet]:
        """Remove what leaves next: at least one packet if there is any."""
        taken: list[Packet] = []
        while self.n_bytes and len(taken) < max_packets and max_bytes > 0:
            packet = self._next_lane().popleft()
            self._count(packet, -1)
            taken.append(packet)
            max_bytes -= len(packet.payload)
        return taken

    def clear(self) -> tuple[Packet, ...]:
        """Remove all, the most urgent first."""
        return tuple(self.take(1 << 30, 1 << 60))

    def _is_full(self, message_class: MessageClass) -> bool:
        return (
            self._n_bytes_of[message_class] >= _MAX_LANE_BYTES[message_class]
            or len(self._lanes[message_class]) >= _MAX_LANE_PACKETS[message_class]
        )

    def _count(self, packet: Packet, sign: int) -> None:
        n_bytes = sign * len(packet.payload)
        self._n_bytes_of[packet.message_class] += n_bytes
        self.n_bytes += n_bytes

    def _next_lane(self) -> deque[Packet]:
        control, interactive, bulk = self._lanes
        if control:
            return control
        if not bulk:
            return interactive
        if not interactive:
            self._share.rest()
            return bulk
        if self._share.is_due(len(bulk[0].payload)):
            return bulk
        self._share.add(len(interactive[0].payload))
        return interactive
