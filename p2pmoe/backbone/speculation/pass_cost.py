"""What a pass takes by its number of rows: a small running model of time.

A pass takes what it computes, and a trip's time for each trip. Sizes that were seen are
kept as running means. Where trips are rare, how many a pass of some size needs is
known from all sizes together: rows miss nearly alone then. Between sizes it is
interpolated, and beyond them it goes on: computing as a line, trips up to one in every
routed layer. How far a mean may be off is told with it. Seconds; pure, reads no clock.
"""

from bisect import bisect_left, bisect_right

from p2pmoe.backbone.speculation.running import RunningMean

__all__ = ["ROW", "PassCost"]

_KNOTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_MEMORY = 24  # passes that a mean rests on
_TRIPS_MEMORY = 96
_STALE = 512  # passes after which a size that was not seen again is forgotten
_FEW = 3  # passes before which nothing is an outlier
_OUTLIER = 4.0
ROW = 0.5  # of a pass of one row: what each further row computes, until measured
_HOPEFUL = 0.3  # of that belief
_UNKNOWN = 0.5  # how far off what was seen once may be
_FURTHER = 0.1  # and more, what was seen of another size
_SLOPE_WEIGHT = 1.0  # of that belief
_APART = 0.5  # of the trips that rows would add if they missed independently
_POOL_WEIGHT = 6.0  # of what all sizes say, in passes, against what one says


class _Size:
    """Passes of about the same number of rows."""

    __slots__ = ("at", "compute", "n", "rows", "spread", "trip", "trips")

    def __init__(self, rows: int) -> None:
        self.rows = float(rows)
        self.compute = RunningMean(_MEMORY)
        self.trip = RunningMean(_MEMORY)  # seconds of one
        self.trips = 0.0  # of a pass
        self.spread = 0.0  # mean square of how far passes are off the mean, relative
        self.n = 0
        self.at = 0  # the latest one's number

    def add(self, rows: int, compute_s: float, wait_s: float, trips: int) -> bool:
        """Take in a pass; True if it shows that times have changed."""
        self.n += 1
        weight = 1.0 / min(self.n, _TRIPS_MEMORY)
        self.rows += (rows - self.rows) * weight
        self.trips += (trips - self.trips) * weight
        changed = self.compute.add(compute_s)
        if trips:
            changed |= self.trip.add(wait_s / trips)
        mean = self.compute.value + self.trips * self.trip.value
        if mean > 0.0:
            off = min(_OUTLIER, (compute_s + wait_s) / mean - 1.0)
            self.spread += (off * off - self.spread) / min(self.n, 2 * _MEMORY)
        return changed


class PassCost:
    """Seconds of a pass by rows, of a model with `n_layers` routed layers.

    `row` is believed to be what a further row computes, of a pass of one row.
    """

    def __init__(self, n_layers: int, row: float = ROW) -> None:
        """Begin without a measurement."""
        self._n_layers = float(max(1, n_layers))
        self._row = row
        self._sizes: dict[int, _Size] = {}
        self._known: list[_Size] = []  # by rows
        self.n = 0  # passes seen
        self.n_changes = 0  # times at which a size was found to take another time
        self._is_settled = False
        self._xs: list[float] = []  # rows, and by them the rest
        self._ys: list[float] = []  # seconds
        # Of compute: as it is known, and hopeful; made when it is asked for.
        self._slopes: tuple[float, float] | None = None
        self._kept = 1.0  # chance that a row does not miss in a layer
        self._trip_s = 0.0

    @property
    def trip_s(self) -> float:
        """What a wait for the network takes; 0 if there was none."""
        self._settle()
        return self._trip_s

    def n_of(self, n_rows: float) -> int:
        """Return how many passes of about so many rows were seen."""
        size = self._sizes.get(_knot(n_rows))
        return 0 if size is None else size.n

    def error(self, n_rows: int) -> float:
        """Return how far `seconds` is likely off for such passes, relative."""
        if not self._known:
            return _UNKNOWN
        size = self._sizes.get(_knot(n_rows))
        further = 0.0
        if size is None:
            size = min(self._known, key=lambda known: abs(known.rows - n_rows))
            further = _FURTHER
        if size.n < 2:
            return _UNKNOWN
        # Few passes tell little of how much they differ.
        spread = (size.spread * size.n + 0.02) / size.n
        error: float = (spread / min(size.n, 2 * _MEMORY)) ** 0.5
        return error + further

    def observe(self, n_rows: int, pass_s: float, wait_s: float, n_trips: int) -> None:
        """Take in a pass: all of its seconds, those that it waited, and its waits."""
        self.n += 1
        wait_s = min(max(0.0, wait_s), pass_s) if n_trips else 0.0
        compute_s = pass_s - wait_s
        knot = _knot(n_rows)
        size = self._sizes.get(knot)
        is_new = size is None
        if size is None:
            size = _Size(n_rows)
            if self.n > _FEW:  # one pass of a new size is not believed much
                compute_s = min(compute_s, _OUTLIER * self.compute_s(n_rows))
                if n_trips and self.trip_s > 0.0:
                    wait_s = min(wait_s, _OUTLIER * n_trips * self.trip_s)
            self._sizes[knot] = size
        size.at = self.n
        self.n_changes += size.add(n_rows, compute_s, wait_s, n_trips)
        self._is_settled = False
        if is_new or self.n % _STALE == 0:
            self._sort()

    def seconds(self, n_rows: float, *, hopeful: bool = False) -> float:
        """Return what a pass takes; `hopeful` where it is not known from passes."""
        self._settle()
        xs, ys = self._xs, self._ys
        if not xs:
            return 0.0
        right = bisect_left(xs, n_rows)
        if right == len(xs):
            at, slope = len(xs) - 1, self._slope(hopeful=hopeful)
        elif right == 0:
            at, slope = 0, self._slope(hopeful=False)
        else:
            low, high = xs[right - 1], xs[right]
            share = (n_rows - low) / (high - low)
            return ys[right - 1] + (ys[right] - ys[right - 1]) * share
        compute_s = slope * (n_rows - xs[at])
        # Rows miss together more than apart, and some layers never.
        share = 0.0 if hopeful else _APART
        trips = share * (self._curve(n_rows) - self._curve(xs[at]))
        return max(0.2 * ys[at], ys[at] + compute_s + trips * self._trip_s)

    def compute_s(self, n_rows: float) -> float:
        """Return what a pass computes, without its waits, from the nearest size."""
        self._settle()
        if not self._known:
            return 0.0
        near = self._known[min(bisect_left(self._xs, n_rows), len(self._xs) - 1)]
        known_s = near.compute.value
        return max(known_s * 0.1, known_s + (n_rows - near.rows) * self._slope())

    def _curve(self, n_rows: float) -> float:
        """Return the trips of a pass whose rows miss independently."""
        kept: float = self._kept**n_rows
        return self._n_layers * (1.0 - kept)

    def _sort(self) -> None:
        for knot in [k for k, s in self._sizes.items() if self.n - s.at > _STALE]:
            del self._sizes[knot]
        self._known = [self._sizes[knot] for knot in sorted(self._sizes)]

    def _settle(self) -> None:
        """Bring what is asked for into order, after passes were taken in."""
        if self._is_settled or not self._known:
            return
        self._is_settled = True
        known = self._known
        self._xs = [size.rows for size in known]
        self._slopes = None
        n_trips = sum(size.trip.n for size in known)
        if n_trips:
            self._kept = self._pooled_kept()
            waits = sum(size.trip.n * size.trip.value for size in known)
            self._trip_s = waits / n_trips
        self._ys = [self._seconds_of(size) for size in known]

    def _seconds_of(self, size: _Size) -> float:
        kept: float = self._kept**size.rows
        weight, n = _POOL_WEIGHT * kept**2, min(size.n, _TRIPS_MEMORY)
        trips = (size.trips * n + self._curve(size.rows) * weight) / (n + weight)
        seen = min(size.trip.n, _MEMORY)
        trip_s = (size.trip.value * seen + self._trip_s) / (seen + 1.0)
        return size.compute.value + trips * trip_s

    def _pooled_kept(self) -> float:
        """Return the chance that a row does not miss in a layer, from all sizes."""
        total = weights = 0.0
        for size in self._known:
            missed = min(size.trips / self._n_layers, 0.99)
            kept: float = (1.0 - missed) ** (1.0 / size.rows)
            # By how well it is known: many rows that all trip tell little of one.
            n = min(size.n, _TRIPS_MEMORY)
            known = size.rows**2 * (1.0 - missed) / (kept**2 * (missed + 0.01))
            weight = n * known
            total += weight * kept
            weights += weight
        return total / weights

    def _slope(self, *, hopeful: bool = False) -> float:
        """Return what one more row computes."""
        if self._slopes is None:
            first = self._known[0]
            one = first.compute.value / (1.0 + self._row * (first.rows - 1.0))
            row_s = one * self._row
            self._slopes = (self._fitted(row_s), self._fitted(row_s * _HOPEFUL))
        return self._slopes[1 if hopeful else 0]

    def _fitted(self, prior: float) -> float:
        """Return the compute of one more row: a line through the sizes seen."""
        total = x = y = 0.0
        for size in self._known:
            weight = min(size.n, 4)
            total += weight
            x += weight * size.rows
            y += weight * size.compute.value
        x, y = x / total, y / total
        up, down = _SLOPE_WEIGHT * prior, _SLOPE_WEIGHT
        for size in self._known:
            weight, more = min(size.n, 4), size.rows - x
            up += weight * more * (size.compute.value - y)
            down += weight * more * more
        return max(0.0, up / down)


def _knot(n_rows: float) -> int:
    return _KNOTS[max(0, bisect_right(_KNOTS, n_rows) - 1)]
