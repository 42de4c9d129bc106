"""One evaluation, from its plan to the run."""

import logging
from dataclasses import replace

import pytest

from p2pmoe.evaluate.asking import ServedCard
from p2pmoe.evaluate.errors import RunsDiffer
from p2pmoe.evaluate.evaluation import EvaluationPlan, configuration_told, evaluate
from p2pmoe.evaluate.measure_text import TextPlan
from p2pmoe.evaluate.task_set import TaskSet, parse_task
from p2pmoe.evaluate.windows import Window
from tests.support.evaluations import (
    CONFIGURATION,
    RUN,
    ScriptedApi,
    echo_document,
    streamed,
)
from tests.support.trio_test import trio_test

MADE = "2026-11-30T04:00:00Z"
CARD = ServedCard(name="pocket", configuration=CONFIGURATION.document())
TEXT = TextPlan(
    sha256="ab" * 32,
    windows=[Window((0, 1, 2, 3))],
    window_tokens=4,
    n_continuations=1,
    continuation_tokens=2,
)
TASKS = TaskSet(
    tasks=(parse_task('{"kind": "answer", "id": "a", "prompt": "p", "expect": "on"}'),),
    sha256="cd" * 32,
)


def api_with(logprob: float = -1.0) -> ScriptedApi:
    return ScriptedApi(
        ask=lambda *_: echo_document(["a", "b", "c", "d"], [None, -1, -1, logprob]),
        stream=lambda *_: streamed("on"),
    )


def ignore(label: str, share: float) -> None:
    del label, share


@trio_test
async def test_text_and_tasks_make_one_run():
    plan = EvaluationPlan(text=TEXT, tasks=TASKS)
    run = await evaluate(api_with(), CARD, plan, MADE, ignore)
    assert (run.made, run.model, run.digest) == (MADE, "pocket", CONFIGURATION.digest)
    assert run.figures["answer_accuracy"] == 1.0
    assert run.figures["perplexity"] == pytest.approx(2.718281828)
    assert run.figures["first_token_p50_s"] == 0.1
    assert run.text is not None
    assert run.tasks_from is not None
    assert (run.tasks_from.n_tasks, len(run.tasks)) == (1, 1)
    assert run.reference == ""


@trio_test
async def test_a_reference_adds_agreement():
    reference = await evaluate(
        api_with(), CARD, EvaluationPlan(text=TEXT), MADE, ignore
    )
    plan = EvaluationPlan(text=TEXT, reference=reference)
    run = await evaluate(api_with(-1.5), CARD, plan, MADE, ignore)
    assert run.figures["logprob_difference"] == pytest.approx(0.5)
    assert run.figures["top1_agreement"] == run.figures["greedy_agreement"] == 1.0
    assert run.reference == reference.identity


@trio_test
async def test_a_reference_of_another_text_is_refused_before_anything_is_asked():
    api = api_with()
    plan = EvaluationPlan(text=TEXT, reference=RUN)
    with pytest.raises(RunsDiffer, match="another text"):
        await evaluate(api, CARD, plan, MADE, ignore)
    assert api.seen == []


@trio_test
async def test_what_was_measured_outlives_a_reference_of_another_vocabulary(caplog):
    reference = await evaluate(
        api_with(), CARD, EvaluationPlan(text=TEXT), MADE, ignore
    )
    assert reference.text is not None
    other = replace(reference, text=replace(reference.text, tokens="another"))
    plan = EvaluationPlan(text=TEXT, reference=other)
    run = await evaluate(api_with(), CARD, plan, MADE, ignore)
    assert "perplexity" in run.figures
    assert "top1_agreement" not in run.figures
    assert run.reference == ""
    assert "agreement is left out" in caplog.text


def test_a_card_is_believed_if_it_holds_together(caplog):
    assert configuration_told(None) is None
    told = configuration_told(CONFIGURATION.document())
    assert told == RUN.configuration
    with caplog.at_level(logging.WARNING):
        assert configuration_told({"digest": "x"}) is None
    assert "configuration is not used" in caplog.text
