"""When each byte leaves: a wire that all connections share, a line for each. No I/O.

A chunk that comes at t enters the wire when the wire is free and does not stall, takes
size / bandwidth to pass it, then the delay and its jitter, and never leaves before the
chunk ahead of it on its line. Nothing is lost, changed or reordered; a line that is
killed ends where its `Path` says and keeps back what is behind that. The end of a
stream (b"") waits its turn like a chunk. The clock is the caller's.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from random import Random

from tests.support.injector.conditions import Path

__all__ = ["MAX_BYTES", "Fate", "Line", "Taken", "Wire"]

MAX_BYTES = 1 << 20  # of a line without a bandwidth; 50 ms a way allow 20 MB/s
_QUEUE_S = 0.02  # what waits before a wire with a bandwidth, beyond what is on its way
_CHUNK_BYTES = 1 << 16
_MIN_BYTES = 1 << 11


class Fate(Enum):
    """What becomes of a line after the bytes taken."""

    GOES_ON = auto()
    ENDS = auto()
    BREAKS = auto()


@dataclass(frozen=True, slots=True)
class Taken:
    """Bytes that leave now, and what comes after them."""

    chunk: bytes
    fate: Fate


class Wire:
    """One direction of a proxy, shared by its connections."""

    def __init__(self, path: Path, now: float) -> None:
        """Be free from `now` on."""
        self.path = path
        self.since = now
        self._free = now
        self._n_chunks = 0

    def change(self, path: Path, now: float) -> None:
        """Be like `path` from now on; its times count from now."""
        self.path = path
        self.since = now

    @property
    def chunk_bytes(self) -> int:
        """The most that a line should take at once: 5 ms of the wire."""
        if self.path.bytes_s is None:
            return _CHUNK_BYTES
        return max(_MIN_BYTES, min(_CHUNK_BYTES, int(self.path.bytes_s * 0.005)))

    @property
    def line_bytes(self) -> int:
        """The most that a line holds."""
        if self.path.bytes_s is None:
            return MAX_BYTES
        held_s = self.path.delay_s + self.path.jitter_s + _QUEUE_S
        return max(2 * _MIN_BYTES, int(self.path.bytes_s * held_s))

    def enter(self, n_bytes: int, now: float) -> float:
        """Return when a chunk that comes now is through, without the delay."""
        start = max(now, self._free)
        path = self.path
        if path.stall_every and n_bytes:
            self._n_chunks += 1
            if self._n_chunks % path.stall_every == 0:
                start += path.stall_s
        for stall in path.stalls:
            begin = self.since + stall.at_s
            if begin <= start < begin + stall.for_s:
                start = begin + stall.for_s
        self._free = start + (n_bytes / path.bytes_s if path.bytes_s else 0.0)
        return self._free

    def kill_time(self, opened: float) -> float | None:
        """Return when a line that was opened at `opened` breaks, if it does."""
        if self.path.kill_at_s is None:
            return None
        at = self.since + self.path.kill_at_s
        return at if opened <= at else None


class Line:
    """Chunks of one connection on their way, oldest first."""

    def __init__(self, wire: Wire, now: float, seed: str = "0") -> None:
        """Open at `now`; the jitter of its chunks is drawn from `seed`."""
        self._wire = wire
        self._opened = now
        self._random = Random(seed)
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._last = float("-inf")
        self._n_left = 0  # bytes that have left
        self._n_held = 0
        self.is_over = False

    @property
    def room(self) -> int:
        """Bytes that may be put now."""
        left = max(0, self._wire.line_bytes - self._n_held)
        return min(left, self._wire.chunk_bytes)

    @property
    def next_time(self) -> float | None:
        """When something happens next, as things are; None if nothing waits."""
        times = [self._waiting[0][0]] if self._waiting else []
        killed = self._wire.kill_time(self._opened)
        if killed is not None:
            times.append(killed)
        return None if self.is_over or not times else min(times)

    def put(self, chunk: bytes, now: float) -> None:
        """Take a chunk in; b"" is the end of the stream."""
        path = self._wire.path
        jitter_s = self._random.uniform(0.0, path.jitter_s) if path.jitter_s else 0.0
        through = self._wire.enter(len(chunk), now)
        self._last = max(self._last, through + path.delay_s + jitter_s)
        self._waiting.append((self._last, chunk))
        self._n_held += len(chunk)

    def take(self, now: float) -> Taken:
        """Return all that is due; it keeps its room until `sent` says it is gone."""
        limit = self._wire.path.kill_after_bytes
        killed = self._wire.kill_time(self._opened)
        until = now if killed is None else min(now, killed)
        due, fate = [], Fate.GOES_ON
        while fate is Fate.GOES_ON and self._waiting and self._waiting[0][0] <= until:
            chunk = self._waiting.popleft()[1]
            if not chunk:
                fate = Fate.ENDS
            elif limit is not None and self._n_left + len(chunk) >= limit:
                chunk = chunk[: max(0, limit - self._n_left)]
                fate = Fate.BREAKS
            self._n_left += len(chunk)
            due.append(chunk)
        if fate is Fate.GOES_ON and killed is not None and killed <= now:
            fate = Fate.BREAKS
        self.is_over = fate is not Fate.GOES_ON
        return Taken(b"".join(due), fate)

    def sent(self, n_bytes: int) -> None:
        """Give back the room of bytes taken."""
        self._n_held -= n_bytes
