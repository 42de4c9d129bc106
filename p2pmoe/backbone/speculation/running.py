"""A running mean that a single outlier does not move, and a lasting change does."""

__all__ = ["RunningMean"]

_EARLY = 8  # figures that are kept one by one, to tell outliers among few
_OUTLIER = 4.0  # times as much as others
_CHANGED = 3  # of them in a row are no outliers: the mean begins anew


class RunningMean:
    """A mean of the last `memory` figures or so, each at least 0."""

    __slots__ = ("_early", "_memory", "_n_off", "n", "value")

    def __init__(self, memory: int) -> None:
        """Begin without a figure, as 0."""
        self._memory = memory
        self._early: list[float] = []
        self._n_off = 0  # outliers in a row, above or (below 0) beneath
        self.n = 0
        self.value = 0.0

    def add(self, figure: float) -> bool:
        """Take in a figure; True if it shows that figures have changed for good."""
        mean, changed = self.value, False
        if self.n < _CHANGED or mean / _OUTLIER <= figure <= mean * _OUTLIER:
            self._n_off = 0
        else:
            above = figure > mean
            self._n_off = max(1, self._n_off + 1) if above else min(-1, self._n_off - 1)
            if abs(self._n_off) >= _CHANGED:
                self.n, self._n_off, self._early, changed = 0, 0, [], True
            elif above:
                figure = _OUTLIER * mean
        self.n += 1
        if self.n > _EARLY:
            self.value += (figure - mean) / min(self.n, self._memory)
        else:
            self._early.append(figure)
            self.value = _mean(sorted(self._early))
        return changed


def _mean(figures: list[float]) -> float:
    """Return the mean of a few sorted figures, without one that is out of line."""
    n = len(figures)
    if n > 2 and figures[-1] > _OUTLIER * figures[(n - 1) // 2]:
        return sum(figures[:-1]) / (n - 1)
    return sum(figures) / n
