"""What `eval` prints: a run's figures, two runs side by side, all runs on one axis."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p2pmoe.cli.tables import is_on_terminal, print_json, print_rows
from p2pmoe.evaluate.figures import FIGURES

if TYPE_CHECKING:
    from p2pmoe.evaluate.comparison import RunComparison
    from p2pmoe.evaluate.run_record import EvaluationRun
    from p2pmoe.evaluate.timeline import Moment

__all__ = ["print_comparison", "print_run", "print_timeline"]

_DIGITS = 6
_SIGNIFICANT = 5
_CHANGED = "what changed"  # told even if that is nothing
_LISTED = 5  # failures that are told one by one
_IN_TABLE = (  # figures of a timeline's table
    "perplexity",
    "top1_agreement",
    "greedy_agreement",
    "answer_accuracy",
    "format_valid",
    "long_repetition",
    "tool_accuracy",
    "first_token_p50_s",
    "per_token_p50_s",
)


def print_run(run: "EvaluationRun", path: Path, *, as_json: bool) -> None:
    """Print a run's figures, and on stderr which tasks could not be measured."""
    failed = [task for task in run.tasks if task.failure]
    for task in failed[:_LISTED]:
        print(f"task {task.id} was not measured: {task.failure}", file=sys.stderr)
    if len(failed) > _LISTED:
        print(f"and {len(failed) - _LISTED} tasks more", file=sys.stderr)
    if as_json:
        document = run.document()
        for bulky in ("windows", "continuations"):  # they are in the file
            del document[bulky]
        print_json({**document, "file": str(path), "n_tasks_failed": len(failed)})
        return
    print_rows(
        ("figure", "value", "unit", "better", "what"),
        [
            {
                "figure": name,
                "value": _rounded(run.figures[name]),
                "unit": figure.unit,
                "better": figure.better.value,
                "what": figure.what,
            }
            for name, figure in FIGURES.items()
            if name in run.figures
        ],
        f"{run.model}, configuration {run.digest[:16] or 'unknown'}",
    )


def print_comparison(found: "RunComparison", *, as_json: bool) -> None:
    """Print what changed, every figure, and every task."""
    variables = [
        {"variable": each.name, "before": each.before, "after": each.after}
        for each in found.variables
    ]
    figures = [
        {
            "figure": row.name,
            "before": _rounded(row.before),
            "after": _rounded(row.after),
            "difference": _rounded(row.difference),
            "unit": FIGURES[row.name].unit,
            "change": row.change.value,
        }
        for row in found.figures
    ]
    tasks = [
        {
            "task": row.id,
            "kind": row.kind,
            "before": _rounded(row.before),
            "after": _rounded(row.after),
            "change": row.change.value,
        }
        for row in found.tasks
    ]
    if as_json:
        print_json(
            {
                "variables": variables,
                "left_out": list(found.left_out),
                "figures": figures,
                "tasks": tasks,
            }
        )
        return
    for line in found.left_out:
        print(line, file=sys.stderr)
    _section(_CHANGED, ("variable", "before", "after"), variables)
    columns = ("figure", "before", "after", "difference", "unit", "change")
    _section("figures", columns, figures)
    _section("tasks", ("task", "kind", "before", "after", "change"), tasks)


def _section(
    title: str, columns: Sequence[str], rows: Sequence[Mapping[str, object]]
) -> None:
    if rows or title == _CHANGED:
        print_rows(columns, rows, title)
        print()


def print_timeline(moments: "Sequence[Moment]", *, as_json: bool) -> None:
    """Print one row a run, with the figures that any of them has."""
    if as_json:
        print_json(
            [
                {
                    "run": moment.name,
                    "made": moment.made,
                    "model": moment.model,
                    "configuration": moment.digest,
                    "changed": list(moment.changed),
                    "figures": dict(moment.figures),
                }
                for moment in moments
            ]
        )
        return
    # Less of each value where all columns must fit a terminal.
    digits, shown = (8, _short) if is_on_terminal() else (16, _rounded)
    told = [n for n in _IN_TABLE if any(n in moment.figures for moment in moments)]
    print_rows(
        ("made", "model", "configuration", "changed", *told),
        [
            {
                "made": moment.made,
                "model": moment.model,
                "configuration": moment.digest[:digits] or "unknown",
                "changed": ", ".join(moment.changed),
                **{name: shown(moment.figures.get(name)) for name in told},
            }
            for moment in moments
        ],
        "evaluations",
    )


def _rounded(value: float | None) -> float | str:
    return "" if value is None else round(value, _DIGITS)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.{_SIGNIFICANT}g}"
