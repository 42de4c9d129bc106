"""Two runs side by side: which variables changed, what that did, and what it did not.

Figures are compared only where both were measured on the same input; for every input
that differs, a line says so, and its figures are left out. Runs that have no input in
common are refused. On a common text, agreement is that of the second run with the
first, whatever reference they were made with. Times that are within a tenth of each
other are called close: one run does not tell them apart. Tasks are told one by one,
those that did not change too: a change of a mean says nothing of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from p2pmoe.evaluate.agreement import agreement
from p2pmoe.evaluate.configuration import Difference, differences
from p2pmoe.evaluate.errors import RunsDiffer
from p2pmoe.evaluate.figures import FIGURES, Better, Figure, Input
from p2pmoe.evaluate.run_record import EvaluationRun, SetInput, TaskResult, TextInput

__all__ = ["Change", "FigureRow", "RunComparison", "TaskRow", "compare", "input_key"]


_CLOSE: Final = 0.1
_AGREEMENT: Final = [n for n, f in FIGURES.items() if f.input is Input.REFERENCE]


class Change(StrEnum):
    """What became of a figure or a task."""

    SAME = "unchanged"
    BETTER = "better"
    WORSE = "worse"
    CLOSE = "within 10 %"  # of a time
    OTHER = "other answer"  # of a task: the figures are the same, the answer is not
    UNMEASURED = "not measured"  # in one of the runs


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """One figure of both runs; None where a run does not have it."""

    name: str
    before: float | None
    after: float | None

    @property
    def difference(self) -> float | None:
        """What was added, if both have it."""
        if self.before is None or self.after is None:
            return None
        return self.after - self.before

    @property
    def change(self) -> Change:
        """Whether it is better."""
        if self.difference is None:
            return Change.UNMEASURED
        if self.difference == 0.0:
            return Change.SAME
        figure = FIGURES[self.name]
        if figure.unit == "s" and abs(self.difference) <= _CLOSE * (self.before or 0.0):
            return Change.CLOSE
        is_better = (self.difference > 0) == (figure.better is Better.HIGHER)
        return Change.BETTER if is_better else Change.WORSE


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """One task of both runs: its first figure, and what became of it."""

    id: str
    kind: str
    before: float | None
    after: float | None
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """See the module; `left_out` has a line for each input that differs."""

    variables: tuple[Difference, ...]
    left_out: tuple[str, ...]
    figures: tuple[FigureRow, ...]
    tasks: tuple[TaskRow, ...]


def compare(before: EvaluationRun, after: EvaluationRun) -> RunComparison:
    """Compare two runs.

    Raises:
        RunsDiffer: they have no input in common; says which differ.
    """
    left_out = tuple(_left_out(before, after))
    same_set = before.tasks_from is not None and before.tasks_from == after.tasks_from
    same_text = before.text is not None and before.text == after.text
    if not (same_set or same_text):
        raise RunsDiffer(f"nothing to compare: {'; '.join(left_out)}")
    one, other = dict(before.figures), dict(after.figures)
    for figures in (one, other):
        for name in _AGREEMENT:
            figures.pop(name, None)
    if same_text and before.windows:
        one |= agreement(before, before)
        other |= agreement(after, before)
    rows = tuple(
        FigureRow(name=name, before=one.get(name), after=other.get(name))
        for name, figure in FIGURES.items()
        if name in one or name in other
        if name in _AGREEMENT or input_key(before, figure) == input_key(after, figure)
    )
    return RunComparison(
        variables=tuple(_variables(before, after)),
        left_out=left_out,
        figures=rows,
        tasks=tuple(_tasks(before, after)) if same_set else (),
    )


def input_key(run: EvaluationRun, figure: Figure) -> tuple[object, ...]:
    """Return what must be equal for two runs' figures to be comparable."""
    if figure.input is Input.TEXT:
        return (run.text,)
    if figure.input is Input.SET:
        return (run.tasks_from,)
    if figure.input is Input.REFERENCE:
        return (run.text, run.reference)
    return (run.text, run.tasks_from)


def _variables(before: EvaluationRun, after: EvaluationRun) -> Iterator[Difference]:
    one, other = before.configuration, after.configuration
    if one is None or other is None:
        names = ["unknown" if c is None else c.digest[:16] for c in (one, other)]
        if one is not other:
            yield Difference(name="configuration", before=names[0], after=names[1])
        return
    yield from differences(one, other)


def _left_out(before: EvaluationRun, after: EvaluationRun) -> Iterator[str]:
    if before.text != after.text:
        yield _line("texts", before.text, after.text)
    if before.tasks_from != after.tasks_from:
        yield _line("sets", before.tasks_from, after.tasks_from)


def _line(
    what: str,
    before: TextInput | SetInput | None,
    after: TextInput | SetInput | None,
) -> str:
    if before is None or after is None:
        which = "before" if before is not None else "after"
        one = what.removesuffix("s")
        return f"only the run {which} has a {one}; figures on it are left out"
    name = next(
        each.name
        for each in fields(before)
        if getattr(before, each.name) != getattr(after, each.name)
    )
    return (
        f"the {what} differ in {name}: {str(getattr(before, name))[:16]} before, "
        f"{str(getattr(after, name))[:16]} after; figures on them are left out"
    )


def _tasks(before: EvaluationRun, after: EvaluationRun) -> Iterator[TaskRow]:
    others = {task.id: task for task in after.tasks}
    for task in before.tasks:
        other = others.get(task.id)
        if other is None or other.kind != task.kind:
            raise RunsDiffer(f"task {task.id!r} is in one run of the set alone")
        yield TaskRow(
            id=task.id,
            kind=task.kind,
            before=_first(task),
            after=_first(other),
            change=_change(task, other),
        )


def _first(task: TaskResult) -> float | None:
    return next(iter(task.figures.values()), None)


def _change(task: TaskResult, other: TaskResult) -> Change:
    """Say what became of a task, by the first of its figures that differs."""
    if bool(task.failure) != bool(other.failure):
        return Change.UNMEASURED
    for name in FIGURES:
        one, two = task.figures.get(name), other.figures.get(name)
        if one != two:
            return FigureRow(name=name, before=one, after=two).change
    return Change.SAME if task.answer == other.answer else Change.OTHER
