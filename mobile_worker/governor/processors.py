"""How busy others keep the processors, and how busy we do, from Linux's `/proc/stat`.

Shares of the last 10 s. Our own work, our threads' and our children's, is taken out of
the whole; time stolen by a hypervisor is nobody's here. A counter that goes back (a
container that moved) begins anew.
"""

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Load", "ProcessorWatch", "own_seconds"]

_WINDOW_S: Final = 10.0
_MAX_CHARS: Final = 512
_IDLE: Final = (3, 4)  # idle, iowait
_STEAL: Final = 7
_N_COUNTED: Final = 8  # the two after it are in user time already


class Load(NamedTuple):
    """others_share: 0 to 1, of all processors. own_cpus: how many we kept busy."""

    others_share: float
    own_cpus: float


class _Look(NamedTuple):
    at: float
    total_s: float
    busy_s: float
    own_s: float


def own_seconds() -> float:
    """Return processor seconds of this process and of its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class ProcessorWatch:
    """Looks at the counters; times are monotonic seconds."""

    def __init__(self, path: Path, own: Callable[[], float] = own_seconds) -> None:
        """Read `path`, laid out as `/proc/stat`."""
        self._path = path
        self._own = own
        self._looks: deque[_Look] = deque(maxlen=64)
        self.is_told = False  # whether the system let us read it, at the last look

    def look(self, now: float) -> Load | None:
        """Return the load of the last 10 s; None until so long was seen."""
        counted = _counted(self._path)
        self.is_told = counted is not None
        if counted is None:
            self._looks.clear()
            return None
        look = _Look(now, *counted, self._own())
        if self._looks and look.total_s < self._looks[-1].total_s:
            self._looks.clear()
        self._looks.append(look)
        while len(self._looks) > 2 and self._looks[1].at <= now - _WINDOW_S:
            self._looks.popleft()
        first = self._looks[0]
        total_s, over_s = look.total_s - first.total_s, now - first.at
        if over_s < _WINDOW_S or total_s <= 0:
            return None
        own_s = max(0.0, look.own_s - first.own_s)
        others_s = look.busy_s - first.busy_s - own_s
        return Load(min(1.0, max(0.0, others_s / total_s)), own_s / over_s)


def _counted(path: Path) -> tuple[float, float] | None:
    """Return seconds of all processors: in all, and busy; None if not told."""
    try:
        with path.open("rb") as file:
            line = file.read(_MAX_CHARS).partition(b"\n")[0]
    except OSError:
        return None
    fields = line.split()
    is_told = len(fields) > _IDLE[0] + 1 and fields.pop(0) == b"cpu"
    if not is_told or not all(field.isdigit() for field in fields):
        return None
    ticks = [int(field) for field in fields[:_N_COUNTED]]
    idle = sum(ticks[at] for at in _IDLE if at < len(ticks))
    stolen = ticks[_STEAL] if len(ticks) > _STEAL else 0
    total = sum(ticks) - stolen
    a_second = os.sysconf("SC_CLK_TCK")
    return total / a_second, (total - idle) / a_second
