"""All runs on one axis: figures over time, and which variable changed when.

A change is told at the run before which it came. Figures of different inputs (another
text, another set) are different series: a line never joins them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from p2pmoe.evaluate.comparison import input_key
from p2pmoe.evaluate.configuration import differences
from p2pmoe.evaluate.figures import FIGURES
from p2pmoe.evaluate.run_record import EvaluationRun

__all__ = ["Moment", "Series", "series_of", "timeline"]

_NEW = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A run on the axis; `changed` names the variables that changed before it."""

    name: str
    made: str
    model: str
    digest: str
    changed: tuple[str, ...]
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A figure over the runs that measured it on one input: (number of run, value).

    `input` counts the figure's inputs from 1 in the order in which they came.
    """

    figure: str
    input: int
    points: tuple[tuple[int, float], ...]


def timeline(runs: Iterable[tuple[str, EvaluationRun]]) -> list[Moment]:
    """Return the runs as moments, in their order; each comes with its name."""
    moments: list[Moment] = []
    before: EvaluationRun | None = None
    for name, run in runs:
        moments.append(
            Moment(
                name=name,
                made=run.made,
                model=run.model,
                digest=run.digest,
                changed=_changed(before, run),
                figures=run.figures,
            )
        )
        before = run
    return moments


def series_of(runs: Iterable[EvaluationRun]) -> list[Series]:
    """Return every figure's series, in the order of `FIGURES`."""
    found: dict[str, dict[tuple[object, ...], list[tuple[int, float]]]] = {}
    for number, run in enumerate(runs):
        for name, value in run.figures.items():
            inputs = found.setdefault(name, {})
            key = input_key(run, FIGURES[name])
            inputs.setdefault(key, []).append((number, value))
    return [
        Series(figure=name, input=number, points=tuple(points))
        for name in FIGURES
        for number, points in enumerate(found.get(name, {}).values(), 1)
    ]


def _changed(before: EvaluationRun | None, run: EvaluationRun) -> tuple[str, ...]:
    if before is None:
        return (_NEW,)
    one, other = before.configuration, run.configuration
    if one is None or other is None:
        return () if one is other else ("configuration",)
    return tuple(each.name for each in differences(one, other))
