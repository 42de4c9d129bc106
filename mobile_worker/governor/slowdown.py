"""Heat seen by the kernel: work of one size takes longer than it did at first. Pure.

Processors that are too hot are slowed down by the system, and many machines (phones,
virtual ones, macOS) tell no temperature. So each call's time for a multiply-add is set
beside the median of the first ones of about its size: small calls cost more for each.
A factor is given only once there are enough of both; what is older than a minute is
forgotten, so that nothing is concluded from a rest.

Source: research/edge-workers.md 5.3 (1.5 times: half; 2 times: a pause).
"""

from collections import deque
from statistics import median
from typing import Final

__all__ = ["SlowdownWatch"]

_N_FIRST: Final = 32  # of a size, by which the others are judged
_N_RECENT: Final = 24
_WINDOW_S: Final = 60.0
_MAX_RECENT: Final = 512


class SlowdownWatch:
    """Takes in what computing took; times are monotonic seconds."""

    def __init__(self) -> None:
        self._first: dict[int, list[float]] = {}
        self._usual: dict[int, float] = {}
        self._recent: deque[tuple[float, float]] = deque(maxlen=_MAX_RECENT)

    def computed(self, now: float, n_macs: int, compute_us: int) -> None:
        """Note that so many multiply-adds took so long."""
        if n_macs <= 0 or compute_us <= 0:
            return
        size, mac_us = n_macs.bit_length(), compute_us / n_macs
        usual = self._usual.get(size)
        if usual is not None:
            self._recent.append((now, mac_us / usual))
            return
        first = self._first.setdefault(size, [])
        first.append(mac_us)
        if len(first) >= _N_FIRST:
            self._usual[size] = median(first)
            del self._first[size]

    def factor(self, now: float) -> float | None:
        """Return the median factor of the last minute; None: too little is known."""
        while self._recent and self._recent[0][0] < now - _WINDOW_S:
            self._recent.popleft()
        if len(self._recent) < _N_RECENT:
            return None
        return median(factor for _, factor in self._recent)

    def forget(self) -> None:
        """Conclude nothing from what was before a rest."""
        self._recent.clear()
