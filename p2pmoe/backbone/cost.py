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
worker that is not asked is not measured, so plans think the better of an idle one the
longer it is (`relax`), until it is tried again: one bad sample never decides for good.
Deadlines and hedges go by what was measured. One call that stalls says little of the
next, so a mean takes a lone outlier in as twice itself, and the second in a row as it
is, as the quantiles take them all. All times are seconds on the caller's monotonic
clock.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from p2pmoe.backbone.path_times import Path, PathTimes

__all__ = ["CallSample", "LocalCost", "WorkerCost"]

ALPHA = 0.15
WINDOW = 128
RESORT_EVERY = 16
ENOUGH = 8  # samples before anything is said of their spread
RISK = 0.2  # of a layer with four calls, one in five meets somebody's p95
OUTLIER = 2.0  # times the mean: as much a sample counts at most
OUTLIER_S = 0.001  # and at least so much above it
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
    """Exponentially weighted mean; plain, outliers and all, while samples are few."""

    __slots__ = ("_was_outlier", "n", "value")

    def __init__(self, default: float) -> None:
        self.value = default
        self.n = 0
        self._was_outlier = False

    def add(self, sample: float) -> None:
        """Take a sample in, at most as an outlier counts."""
        self.n += 1
        most = max(OUTLIER * self.value, self.value + OUTLIER_S)
        is_alone = not self._was_outlier
        self._was_outlier = sample > most
        if self.n > ENOUGH and is_alone:
            sample = min(sample, most)
        self.value += max(ALPHA, 1.0 / self.n) * (sample - self.value)


class WorkerCost:
    """Running estimates of one worker; `in_flight_rows` is its queue as we know it."""

    __slots__ = (
        "_faded",
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
        self._faded = 1.0  # what is left of the round trip in the eyes of plans

    @property
    def rtt_s(self) -> float:
        """Round trip without compute, as plans see it."""
        return self._rtt.value * self._faded

    @property
    def is_known(self) -> bool:
        """Whether enough calls were measured to tell what is slow for this worker."""
        return len(self._ratios) >= ENOUGH

    @property
    def per_row_s(self) -> float:
        """Compute per (expert, row)."""
        return self._per_row.value

    def observe(self, sample: CallSample) -> None:
        """Take one answered call in."""
        if sample.n_rows < 1 or not sample.elapsed_s >= 0.0:
            return
        self._sampled = True
        compute = min(max(sample.compute_s, 0.0), sample.elapsed_s)
        transport = sample.elapsed_s - compute
        self._rtt.value = min(self._rtt.value, max(self.rtt_s, transport))
        self._faded = 1.0
        expected = self.measured_s(sample.n_rows, sample.n_bytes)
        self._per_row.add(compute / sample.n_rows)
        if sample.n_bytes <= SMALL_BYTES or self._rtt.n == 0:
            self._rtt.add(transport)
        elif sample.n_bytes >= LARGE_BYTES:
            self._per_byte.add(max(0.0, transport - self._rtt.value) / sample.n_bytes)
        self._add_ratio(sample.elapsed_s / max(expected, 1e-6))

    def _add_ratio(self, ratio: float) -> None:
        self._ratios.append(ratio)
        self._n_samples += 1
        if len(self._ratios) < WINDOW or self._n_samples % RESORT_EVERY == 0:
            self._ordered = []  # sorted anew when asked

    def outlasted(self, elapsed_s: float, n_rows: int, n_bytes: int) -> None:
        """Note a call that had not been answered after `elapsed_s`, and was withdrawn.

        What is given up for slow is a slow call: left out, it would look as if the
        worker had none.
        """
        expected = self.measured_s(n_rows, n_bytes)
        if elapsed_s > expected:
            self._add_ratio(elapsed_s / max(expected, 1e-6))

    def relax(self) -> None:
        """Think a little better of a worker that was not measured since last time."""
        if not self._sampled and not self.in_flight_rows:
            self._faded *= RELAXED
        self._sampled = False

    def relearn(self) -> None:
        """Let the next sample replace what was known, as if it were the first."""
        for mean in (self._rtt, self._per_row):
            mean.n = 0

    def forget_spread(self) -> None:
        """Let the quantiles begin anew: what they are of is over."""
        self._ratios.clear()
        self._ordered = []

    def expected_s(self, n_rows: int, n_bytes: int) -> float:
        """Return the time that plans give a call of this size on an idle worker."""
        return self.rtt_s + n_bytes * self._per_byte.value + n_rows * self.per_row_s

    def measured_s(self, n_rows: int, n_bytes: int) -> float:
        """Return the time a call of this size took on this worker, when last asked."""
        per_byte, per_row = self._per_byte.value, self._per_row.value
        return self._rtt.value + n_bytes * per_byte + n_rows * per_row

    def queue_s(self) -> float:
        """Return the compute of our own that the worker has not answered yet."""
        return self.in_flight_rows * self.per_row_s

    def loaded_s(self, n_rows: int, n_bytes: int) -> float:
        """Return `measured_s` behind what the worker has not answered yet."""
        return self.measured_s(n_rows, n_bytes) + self.queue_s()

    def trip_s(self) -> float:
        """Return the p95 of a round trip without any work, queueing left out."""
        return self._rtt.value * max(1.0, self._spread(0.95))

    def tail(self) -> Sequence[float]:
        """Return elapsed / expected of the slowest calls, ascending, from p95 on.

        Empty while there are too few samples to tell.
        """
        if not self.is_known:
            return ()
        ordered = self._in_order()
        return ordered[math.ceil(0.95 * len(ordered)) - 1 :]

    def p95(self) -> float | None:
        """Return the p95 of elapsed / expected; None while samples are too few."""
        return self._spread(0.95) if self.is_known else None

    def deadline_s(self, loaded_s: float) -> float:
        """Return how long to wait for a call before it goes elsewhere.

        `loaded_s` is what it is expected to take. From this worker's own p99, with a
        floor against jitter and a ceiling that keeps a stall below 2 s unless the call
        itself is expected to be longer.
        """
        ceiling = max(DEADLINE_CEILING_S, DEFAULT_SPREAD * loaded_s)
        if not self.is_known:
            return ceiling
        wanted = DEADLINE_MARGIN * loaded_s * self._spread(0.99)
        return min(max(wanted, DEADLINE_FLOOR_S), ceiling)

    @property
    def risk(self) -> float:
        """What a plan weighs an expected time by, at least 1."""
        if not self.is_known:
            return 1.0
        return 1.0 + RISK * max(0.0, self._spread(0.95) - 1.0)

    def _spread(self, q: float) -> float:
        if not self.is_known:
            return DEFAULT_SPREAD
        ordered = self._in_order()
        at = math.ceil(q * len(ordered)) - 1
        return ordered[min(max(at, 0), len(ordered) - 1)]

    def _in_order(self) -> list[float]:
        if not self._ordered:
            self._ordered = sorted(self._ratios)
        return self._ordered


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
