"""Of many joins, how close together they came."""

from collections.abc import Iterable

__all__ = ["busiest_second"]


def busiest_second(times: Iterable[float]) -> int:
    """Return the most of these times that lie within any one second."""
    ordered, first, most = sorted(times), 0, 0
    for n, at in enumerate(ordered):
        while at - ordered[first] >= 1.0:
            first += 1
        most = max(most, n - first + 1)
    return most
