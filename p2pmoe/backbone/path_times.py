"""What an expert call takes by each path, as measured: a running mean and a p95.

    ram     computing one row with weights in memory
    disk    reading one expert from the disk
    fetch   getting one expert's weights from elsewhere, to keep them
    hub, edge   one dispatch, from sending to its answer

Of the last samples only, so that it follows the machine and the network. Samples may
come from any thread; a reader may miss the newest.
"""

import math
from collections import deque
from collections.abc import Iterator
from enum import StrEnum

__all__ = ["Path", "PathTimes"]

ALPHA = 0.05
WINDOW = 256


class Path(StrEnum):
    """A way by which an expert is had."""

    RAM = "ram"
    DISK = "disk"
    FETCH = "fetch"
    HUB = "hub"
    EDGE = "edge"


class PathTimes:
    """Times by path, seconds."""

    def __init__(self) -> None:
        """Begin with nothing measured."""
        self._last = {path: deque[float](maxlen=WINDOW) for path in Path}
        self._mean: dict[Path, float] = {}

    def add(self, path: Path, seconds: float) -> None:
        """Take in one time; one that is no time is left out."""
        if not 0.0 <= seconds < math.inf:
            return
        mean = self._mean.get(path, seconds)
        self._mean[path] = mean + ALPHA * (seconds - mean)
        self._last[path].append(seconds)

    def mean_s(self, path: Path) -> float | None:
        """Return the exponentially weighted mean; None before the first sample."""
        return self._mean.get(path)

    def p95_s(self, path: Path) -> float | None:
        """Return the 95th percentile of the last samples; None before the first."""
        ordered = sorted(self._last[path])
        return ordered[math.ceil(0.95 * len(ordered)) - 1] if ordered else None

    def samples(self) -> Iterator[tuple[dict[str, str], float]]:
        """Yield labels and seconds of what was measured, as metrics."""
        for path in Path:
            for quantile, value in (
                ("mean", self.mean_s(path)),
                ("0.95", self.p95_s(path)),
            ):
                if value is not None:
                    yield {"path": path.value, "quantile": quantile}, value
