"""What a benchmark reports: one figure beside its baseline and its target."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Figure", "figure"]


@dataclass(frozen=True)
class Figure:
    """The median of several rounds, `minimum` to `maximum`, in `unit`.

    `baseline`: the same thing done the plain way, measured in the same run; `ratio`:
    ours over baseline. `met`: whether the target was reached, None without one.
    """

    name: str
    unit: str
    ours: float
    baseline: float | None
    ratio: float | None
    minimum: float
    maximum: float
    target: float | None
    met: bool | None


def figure(
    name: str,
    unit: str,
    rounds: Sequence[float],
    *,
    baseline: Sequence[float] = (),
    at_least: float | None = None,
    at_most: float | None = None,
) -> Figure:
    """Make a figure of the rounds' values, with a floor or a ceiling as its target."""
    ours = statistics.median(rounds)
    beside = statistics.median(baseline) if baseline else None
    met = None
    if at_least is not None:
        met = ours >= at_least
    if at_most is not None:
        met = ours <= at_most
    return Figure(
        name=name,
        unit=unit,
        ours=ours,
        baseline=beside,
        ratio=ours / beside if beside else None,
        minimum=min(rounds),
        maximum=max(rounds),
        target=at_least if at_least is not None else at_most,
        met=met,
    )
