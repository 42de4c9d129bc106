"""One evaluation from its plan to the run that is stored.

    text      windows and continuations, see measure_text.py
    tasks     the operator's set, see measure_tasks.py
    figures   with those that need the reference

What the server says of its configuration goes into the run as it says it; one that
says nothing, or what does not hold together, leaves a run without a configuration.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from p2pmoe.evaluate.agreement import agreement, check_reference
from p2pmoe.evaluate.asking import ModelApi, ServedCard
from p2pmoe.evaluate.configuration import StoredConfiguration, read_configuration
from p2pmoe.evaluate.errors import RunsDiffer
from p2pmoe.evaluate.latency import StreamTimes, latency_figures
from p2pmoe.evaluate.measure_tasks import measure_tasks
from p2pmoe.evaluate.measure_text import Tell, TextPlan, measure_text
from p2pmoe.evaluate.reading import Misread
from p2pmoe.evaluate.run_record import EvaluationRun, SetInput
from p2pmoe.evaluate.task_set import TaskSet

__all__ = ["EvaluationPlan", "configuration_told", "evaluate"]

log = logging.getLogger("p2pmoe.evaluate")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan:
    """What to measure: a text, a set, or both; `reference` goes with a text."""

    text: TextPlan | None = None
    tasks: TaskSet | None = None
    reference: EvaluationRun | None = None


def configuration_told(told: Mapping[str, Any] | None) -> StoredConfiguration | None:
    """Return the configuration that a server's card tells; None if it tells none."""
    if told is None:
        return None
    try:
        return read_configuration(told)
    except Misread as error:
        log.warning("the server's configuration is not used: %s", error)
        return None


async def evaluate(
    api: ModelApi, card: ServedCard, plan: EvaluationPlan, made: str, tell: Tell
) -> EvaluationRun:
    """Measure what `plan` says; `made` is the time that the run will carry.

    Raises:
        RunsDiffer: the reference is no run on this text; nothing was asked then.
        MeasurementFailed: the text cannot be measured.
        ApiError: the server is lost.
    """
    if plan.reference is not None:
        check_reference(plan.reference, plan.text)
    run = EvaluationRun(
        made=made,
        model=card.name,
        configuration=configuration_told(card.configuration),
        text=None,
        tasks_from=None,
        figures={},
    )
    times: tuple[StreamTimes, ...] = ()
    if plan.text is not None:
        text = await measure_text(api, plan.text, tell)
        times += text.times
        run = replace(
            run,
            text=text.input,
            windows=text.windows,
            continuations=text.continuations,
            figures=text.figures,
        )
    if plan.tasks is not None:
        tasks = await measure_tasks(api, plan.tasks.tasks, tell)
        times += tasks.times
        own = SetInput(sha256=plan.tasks.sha256, n_tasks=len(tasks.results))
        figures = {**run.figures, **tasks.figures}
        run = replace(run, tasks_from=own, tasks=tasks.results, figures=figures)
    if plan.reference is not None:
        run = _compared(run, plan.reference)
    return replace(run, figures={**run.figures, **latency_figures(times)})


def _compared(run: EvaluationRun, reference: EvaluationRun) -> EvaluationRun:
    """Add agreement; what was measured is not lost if it turns out to be impossible."""
    try:
        figures = {**run.figures, **agreement(run, reference)}
    except RunsDiffer as error:
        log.warning("agreement is left out: %s", error)
        return run
    return replace(run, figures=figures, reference=reference.identity)
