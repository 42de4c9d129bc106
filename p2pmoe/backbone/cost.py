"""What a call will take, from what earlier calls took. Pure; never a guess for long.

One `WorkerCost` per worker and one `LocalCost` per process keep running estimates:

- `rtt_s`: time outside the worker's own compute, from small messages;
- `per_byte_s`: what bytes add to that, from large messages;
- `per_row_s`: the worker's compute per (expert, row), as it reports;
- `spread`: quantiles of elapsed / expected over the last calls, from which p95 and
  p99 of a coming call follow whatever its size;
- `risk`: what a plan weighs a call's expected time by. A layer waits for the slowest of
  its calls, so a way that is mostly as fast but at times much slower costs more than
  its mean: 1 + RISK * (p95 / expected - 1), for workers and for the disk alike.

Before the first sample the defaults below hold; the first sample replaces them. A
worker that is not asked is not measured, so the round trip of an idle one shrinks
(`relax`) until it is tried again: one bad sample never decides for good. All times are
seconds on the caller's monotonic clock.
"""

import math
from collections import deque
from dataclasses import dataclass

from p2pmoe.backbone.path_times import Path, PathTimes

__all__ = ["CallSample", "LocalCost", "WorkerCost"]

ALPHA = 0.15
WINDOW = 128
RESORT_EVERY = 16
ENOUGH = 8  # samples before anything is said of their spread
RISK = 0.2  # of a layer with four calls, one in five meets somebody's p95
SMALL_BYTES = 16 * 1024
LARGE_BYTES = 64 * 1024
DEFAULT_RTT_S = 0.05
DEFAULT_PER_ROW_S = 0.001
DEFAULT_SPREAD = 4.0
RELAXED = 0.97  # a call, four calls a second: half in six seconds
DEADLINE_FLOOR_S = 0.4
DEADLINE_CEILING_S = 1.5
DEADLINE_MARGIN = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSample:
    """One answered dispatch: elapsed from send to receipt, compute as reported."""

    elapsed_s: float
    compute_s: float
    n_rows: int  # (expert, row) pairs
    n_bytes: int  # both ways


class _Mean:
    """Exponentially weighted mean; plain while there are few samples."""

    __slots__ = ("n", "value")

    def __init__(self, default: float) -> None:
        self.value = default
        self.n = 0

    def add(self, sample: float) -> None:
        self.n += 1
        self.value += max(ALPHA, 1.0 / self.n) * (sample - self.value)


class WorkerCost:
    """Running estimates of one worker; `in_flight_rows` is its queue as we know it."""

    __slots__ = (
        "_n_samples",
        "_ordered",
        "_per_byte",
        "_per_row",
        "_ratios",
        "_rtt",
        "_sampled",
        "in_flight_rows",
        "n_rows_sent",
    )

    def __init__(self, *, rtt_s: float = DEFAULT_RTT_S) -> None:
        """Start from `rtt_s`, a hint (the HELLO's own round trip)."""
        self._rtt = _Mean(rtt_s)
        self._per_byte = _Mean(0.0)
        self._per_row = _Mean(DEFAULT_PER_ROW_S)
        self._ratios: deque[float] = deque(maxlen=WINDOW)
        self._ordered: list[float] = []
        self._n_samples = 0
        self.in_flight_rows = 0
        self.n_rows_sent = 0
        self._sampled = False

    @property
    def rtt_s(self) -> float:
        """Round trip without compute."""
        return self._rtt.value

    @property
    def per_row_s(self) -> float:
        """Compute per (expert, row)."""
        return self._per_row.value

    def observe(self, sample: CallSample) -> None:
        """Take one answered call in."""
        if sample.n_rows < 1 or not sample.elapsed_s >= 0.0:
            return
        self._sampled = True
        expected = self.expected_s(sample.n_rows, sample.n_bytes)
        compute = min(max(sample.compute_s, 0.0), sample.elapsed_s)
        transport = sample.elapsed_s - compute
        self._per_row.add(compute / sample.n_rows)
        if sample.n_bytes <= SMALL_BYTES or self._rtt.n == 0:
            self._rtt.add(transport)
        elif sample.n_bytes >= LARGE_BYTES:
            self._per_byte.add(max(0.0, transport - self.rtt_s) / sample.n_bytes)
        self._ratios.append(sample.elapsed_s / max(expected, 1e-6))
        self._n_samples += 1
        if len(self._ratios) < WINDOW or self._n_samples % RESORT_EVERY == 0:
            self._ordered = []  # sorted anew when asked

    def relax(self) -> None:
        """Think a little better of a worker that was not measured since last time."""
        if not self._sampled and not self.in_flight_rows:
            self._rtt.value *= RELAXED
        self._sampled = False

    def expected_s(self, n_rows: int, n_bytes: int) -> float:
        """Return the time a call of this size takes on an idle worker."""
        return self.rtt_s + n_bytes * self._per_byte.value + n_rows * self.per_row_s

    def queue_s(self) -> float:
        """Return the compute of our own that the worker has not answered yet."""
        return self.in_flight_rows * self.per_row_s

    def quantile_s(self, q: float, n_rows: int, n_bytes: int) -> float:
        """Return the q-quantile (0 to 1) of a call's time, queueing included."""
        expected = self.expected_s(n_rows, n_bytes) + self.queue_s()
        return expected * self._spread(q)

    def deadline_s(self, n_rows: int, n_bytes: int) -> float:
        """Return how long to wait for a call before it goes elsewhere.

        From this worker's own p99, with a floor against jitter and a ceiling that
        keeps a stall below 2 s unless the call itself is expected to be longer.
        """
        expected = self.expected_s(n_rows, n_bytes) + self.queue_s()
        ceiling = max(DEADLINE_CEILING_S, DEFAULT_SPREAD * expected)
        if len(self._ratios) < ENOUGH:
            return ceiling
        wanted = DEADLINE_MARGIN * self.quantile_s(0.99, n_rows, n_bytes)
        return min(max(wanted, DEADLINE_FLOOR_S), ceiling)

    @property
    def risk(self) -> float:
        """What a plan weighs an expected time by, at least 1."""
        if len(self._ratios) < ENOUGH:
            return 1.0
        return 1.0 + RISK * max(0.0, self._spread(0.95) - 1.0)

    def _spread(self, q: float) -> float:
        if len(self._ratios) < ENOUGH:
            return DEFAULT_SPREAD
        if not self._ordered:
            self._ordered = sorted(self._ratios)
        at = math.ceil(q * len(self._ordered)) - 1
        return self._ordered[min(max(at, 0), len(self._ordered) - 1)]


class LocalCost:
    """Running estimates of this machine: compute per row, disk per byte.

    `times` are those of each path, as metrics tell them.
    """

    __slots__ = ("_disk_per_byte", "_disk_ratios", "_per_row", "times")

    def __init__(self) -> None:
        """Start from a slow NVMe and the default compute; both are soon measured."""
        self._per_row = _Mean(DEFAULT_PER_ROW_S)
        self._disk_per_byte = _Mean(1.0 / 1e9)
        self._disk_ratios: deque[float] = deque(maxlen=WINDOW)
        self.times = PathTimes()

    def observe_compute(self, seconds: float, n_rows: int) -> None:
        """Take in one local expert call."""
        if n_rows > 0:
            self._per_row.add(seconds / n_rows)
            self.times.add(Path.RAM, seconds / n_rows)

    def observe_read(self, seconds: float, n_bytes: int, n_at_once: int = 1) -> None:
        """Take in one positioned read; `n_at_once` of them shared the disk.

        What bytes cost is the read's part of the time, as reads of a layer add up.
        """
        if n_bytes > 0 and n_at_once > 0:
            per_byte = seconds / n_bytes / n_at_once
            if self._disk_per_byte.n:
                self._disk_ratios.append(
                    per_byte / max(self._disk_per_byte.value, 1e-15)
                )
            self._disk_per_byte.add(per_byte)
            self.times.add(Path.DISK, seconds)

    @property
    def disk_risk(self) -> float:
        """What a plan weighs a read's expected time by, at least 1."""
        if len(self._disk_ratios) < ENOUGH:
            return 1.0
        ordered = sorted(self._disk_ratios)
        p95 = ordered[math.ceil(0.95 * len(ordered)) - 1]
        return 1.0 + RISK * max(0.0, p95 - 1.0)

    def compute_s(self, n_rows: int) -> float:
        """Return the time to compute rows of an expert at hand."""
        return n_rows * self._per_row.value

    def disk_s(self, n_rows: int, n_bytes: int) -> float:
        """Return the time to read an expert of n_bytes and compute rows of it.

        The read's time is weighed by its risk.
        """
        read_s = n_bytes * self._disk_per_byte.value * self.disk_risk
        return read_s + self.compute_s(n_rows)
