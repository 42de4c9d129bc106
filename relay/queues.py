"""Frames that wait for one destination: bounded in bytes, fair between sources.

Three lanes (control, interactive, bulk), each with a cap. Rules, in order:

- one source may fill at most a quarter of a lane, unless it is alone in it; what is
  above that is shed from its own oldest frame on;
- a lane above its cap sheds the oldest frame of its fattest source, but never its only
  frame; what a source was lately served counts as its own too, else sources of small
  frames, or eager ones, would push out those whose one frame is larger than a part;
- above 80 % of the process's budget all caps are halved, at the end of the budget the
  newcomer itself is shed;
- control leaves first; interactive and bulk by deficit round robin over their sources,
  bulk with at least a tenth of the bytes while it waits;
- a frame's age is looked at when it leaves: too old is shed then.

Nothing vanishes: every frame pushed is later either taken or returned as shed. A frame
is a whole SEND message, kept as received. Source: Shreedhar and Varghese, "Efficient
fair queuing using deficit round robin" (1996).
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from relay.defaults import DEFAULT_TTL_MS, MAX_TTL_MS
from relay.frame_types import FrameClass, NackReason
from relay.frames import CLASS_MASK
from relay.keys import PeerId

__all__ = [
    "BulkShare",
    "DestinationQueue",
    "LaneCaps",
    "QueueBudget",
    "Shed",
    "Waiting",
]

_QUANTUM_BYTES: Final = 8 * 1024
_REMEMBERED_CAPS: Final = 32  # of service, in the size of a lane
_BULK_PART: Final = 9  # bulk earns one byte for nine of interactive: a tenth


class Waiting(NamedTuple):
    """A frame that leaves now, `age_ms` after it came."""

    message: bytes
    source: PeerId
    age_ms: int


class Shed(NamedTuple):
    """A frame that will not be delivered."""

    message: bytes
    source: PeerId
    reason: NackReason


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCaps:
    """Bytes that each lane of one destination may hold."""

    control: int
    interactive: int
    bulk: int


@dataclass(slots=True, kw_only=True)
class QueueBudget:
    """Bytes queued in the whole process, and how many there may be."""

    max_bytes: int
    n_bytes: int = 0

    @property
    def is_tight(self) -> bool:
        """Whether caps are halved now."""
        return self.n_bytes * 5 > self.max_bytes * 4


class BulkShare:
    """Decides when waiting bulk is due beside interactive frames."""

    __slots__ = ("_earned",)

    def __init__(self) -> None:
        self._earned = 0

    def add(self, n_bytes: int) -> None:
        """Note interactive bytes that went ahead of waiting bulk."""
        self._earned += n_bytes

    def is_due(self, n_bytes: int) -> bool:
        """Tell whether a bulk frame of this size has earned its turn; if so, spend."""
        if self._earned < n_bytes * _BULK_PART:
            return False
        self._earned -= n_bytes * _BULK_PART
        return True

    def rest(self) -> None:
        """Forget what was earned: nobody competes now."""
        self._earned = 0


class _Source:
    __slots__ = ("deficit", "frames", "n_bytes", "peer_id")

    def __init__(self, peer_id: PeerId) -> None:
        self.peer_id = peer_id
        self.frames: deque[tuple[bytes, float]] = deque()
        self.n_bytes = 0
        self.deficit = 0


class _Lane:
    """One class. `sources` holds those with frames, in the order of their turns."""

    __slots__ = ("cap", "n_bytes", "n_served", "served", "sources")

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.n_bytes = 0
        self.sources: dict[PeerId, _Source] = {}
        # Bytes that sources were lately given; kept while the lane is too full only.
        self.served: dict[PeerId, int] | None = None
        self.n_served = 0

    def fattest(self) -> _Source:
        """Return whose frame is shed next."""
        served = self.served
        if served is None:
            served = self.served = {}
            self.n_served = 0
        return max(
            self.sources.values(),
            key=lambda source: source.n_bytes + served.get(source.peer_id, 0),
        )

    def note_served(
        self, served: dict[PeerId, int], peer_id: PeerId, size: int
    ) -> None:
        """Remember what a source was given, and half of all that is older."""
        if not self.n_bytes:
            self.served = None
            return
        served[peer_id] = served.get(peer_id, 0) + size
        self.n_served += size
        if self.n_served > self.cap * _REMEMBERED_CAPS:
            halves = {peer: n_bytes // 2 for peer, n_bytes in served.items()}
            self.served = {peer: n_bytes for peer, n_bytes in halves.items() if n_bytes}
            self.n_served = sum(halves.values())

    def pop_oldest(self, source: _Source) -> tuple[bytes, float]:
        item = source.frames.popleft()
        size = len(item[0])
        source.n_bytes -= size
        self.n_bytes -= size
        if not source.frames:
            del self.sources[source.peer_id]
        return item

    def next_source(self) -> _Source:
        """Return whose turn it is; deficits move as in deficit round robin."""
        while True:
            source = next(iter(self.sources.values()))
            if len(self.sources) == 1:
                source.deficit = 0
                return source
            size = len(source.frames[0][0])
            if source.deficit >= size:
                source.deficit -= size
                return source
            source.deficit += _QUANTUM_BYTES
            del self.sources[source.peer_id]
            self.sources[source.peer_id] = source


class DestinationQueue:
    """All frames on their way to one peer."""

    __slots__ = ("_budget", "_lanes", "_share", "n_bytes")

    def __init__(self, caps: LaneCaps, budget: QueueBudget) -> None:
        self._lanes = (_Lane(caps.control), _Lane(caps.interactive), _Lane(caps.bulk))
        self._share = BulkShare()
        self._budget = budget
        self.n_bytes = 0

    def change_caps(self, caps: LaneCaps) -> None:
        """Go on by other caps; what waits above them is shed by the next frames."""
        for lane, cap in zip(
            self._lanes, (caps.control, caps.interactive, caps.bulk), strict=True
        ):
            lane.cap = cap

    def push(self, source: PeerId, message: bytes, now: float) -> list[Shed] | None:
        """Append a SEND message whose flags are valid; what had to go for it, or None.

        `now`: monotonic seconds.
        """
        lane = self._lanes[message[1] & CLASS_MASK]
        size = len(message)
        if self._budget.n_bytes + size > self._budget.max_bytes:
            return [Shed(message, source, NackReason.QUEUE_FULL)]
        entry = lane.sources.get(source)
        if entry is None:
            entry = lane.sources[source] = _Source(source)
        entry.frames.append((message, now))
        entry.n_bytes += size
        lane.n_bytes += size
        self.n_bytes += size
        self._budget.n_bytes += size
        cap = lane.cap // 2 if self._budget.is_tight else lane.cap
        if lane.n_bytes <= cap and (entry.n_bytes * 4 <= cap or len(lane.sources) == 1):
            return None
        return self._shed_excess(lane, entry, cap)

    def _shed_excess(self, lane: _Lane, entry: _Source, cap: int) -> list[Shed] | None:
        shed: list[Shed] = []
        if len(lane.sources) > 1:
            while entry.n_bytes * 4 > cap and len(entry.frames) > 1:
                shed.append(self._shed_oldest(lane, entry))
        while lane.n_bytes > cap:
            fattest = lane.fattest()
            if len(fattest.frames) == 1 and len(lane.sources) == 1:
                break
            shed.append(self._shed_oldest(lane, fattest))
        return shed or None

    def _shed_oldest(self, lane: _Lane, source: _Source) -> Shed:
        message, _ = lane.pop_oldest(source)
        self._forget(len(message))
        return Shed(message, source.peer_id, NackReason.QUEUE_FULL)

    def _forget(self, n_bytes: int) -> None:
        self.n_bytes -= n_bytes
        self._budget.n_bytes -= n_bytes

    def take(self, max_bytes: int, now: float) -> tuple[list[Waiting], list[Shed]]:
        """Remove about `max_bytes` of what is due, at least one frame if any waits."""
        due: list[Waiting] = []
        expired: list[Shed] = []
        left = max_bytes
        while left > 0 and self.n_bytes:
            lane = self._next_lane()
            source = lane.next_source()
            message, came_at = lane.pop_oldest(source)
            self._forget(len(message))
            age_ms = int((now - came_at) * 1000)
            ttl_ms = (message[2] << 8 | message[3]) or DEFAULT_TTL_MS
            if age_ms > min(ttl_ms, MAX_TTL_MS):
                expired.append(Shed(message, source.peer_id, NackReason.EXPIRED))
                continue
            if lane.served is not None:
                lane.note_served(lane.served, source.peer_id, len(message))
            due.append(Waiting(message, source.peer_id, age_ms))
            left -= len(message)
        return due, expired

    def _next_lane(self) -> _Lane:
        control, interactive, bulk = self._lanes
        if control.n_bytes:
            return control
        if not bulk.n_bytes:
            return interactive
        if not interactive.n_bytes:
            self._share.rest()
            return bulk
        if self._share.is_due(_head_size(bulk)):
            return bulk
        self._share.add(_head_size(interactive))
        return interactive

    def empty(self) -> list[Shed]:
        """Remove everything: the destination is gone."""
        shed: list[Shed] = []
        for lane in self._lanes:
            for source in list(lane.sources.values()):
                for message, _ in source.frames:
                    self._forget(len(message))
                    shed.append(Shed(message, source.peer_id, NackReason.GONE))
            lane.sources.clear()
            lane.n_bytes = 0
            lane.served = None
        return shed

    def holds_frames_of(self, source: PeerId) -> bool:
        """Tell whether frames of this source wait here."""
        return any(source in lane.sources for lane in self._lanes)

    def waiting(self, frame_class: FrameClass) -> int:
        """Return the bytes that wait in one class."""
        return self._lanes[frame_class].n_bytes


def _head_size(lane: _Lane) -> int:
    source = next(iter(lane.sources.values()))
    return len(source.frames[0][0])
