"""Two runs side by side."""

import dataclasses

import pytest

from p2pmoe.evaluate.comparison import Change, FigureRow, compare, input_key
from p2pmoe.evaluate.errors import RunsDiffer
from p2pmoe.evaluate.figures import FIGURES
from p2pmoe.evaluate.run_record import Continuation, SetInput, TaskResult, TextInput
from tests.support.evaluations import RUN, changed

replace = dataclasses.replace
TEXT, TASKS = RUN.text, RUN.tasks_from
assert TEXT is not None
OTHER_TEXT: TextInput = replace(TEXT, sha256="99" * 32)
AGREEMENT = ("top1_agreement", "logprob_difference", "greedy_agreement")
OTHER_SET = SetInput(sha256="99" * 32, n_tasks=2)


def test_variables_figures_and_tasks_are_told_those_that_are_equal_too():
    after = replace(
        changed(profile="r8", ram_bytes=7),
        figures={"perplexity": 41.0, "answer_accuracy": 0.5, "tool_names": 1.0},
        tasks=(
            RUN.tasks[0],
            TaskResult(id="two", kind="answer", figures={"answer_accuracy": 1.0}),
        ),
    )
    found = compare(RUN, after)
    assert [(v.name, v.before, v.after) for v in found.variables] == [
        ("ram_bytes", "all", "7"),
        ("profile", "r16", "r8"),
    ]
    assert found.left_out == ()
    assert {row.name: row.change for row in found.figures} == {
        "perplexity": Change.WORSE,
        "answer_accuracy": Change.SAME,
        "first_token_p50_s": Change.UNMEASURED,
        "tool_names": Change.UNMEASURED,
        **dict.fromkeys(AGREEMENT, Change.SAME),
    }
    assert found.figures[0].difference == pytest.approx(0.5)
    assert [(row.id, row.change) for row in found.tasks] == [
        ("one", Change.SAME),
        ("two", Change.BETTER),
    ]


def test_lower_is_better_where_it_is():
    assert FigureRow(name="perplexity", before=2.0, after=1.0).change is Change.BETTER
    worse = FigureRow(name="answer_accuracy", before=1.0, after=0.5)
    assert worse.change is Change.WORSE


@pytest.mark.parametrize(
    ("after", "change"),
    [
        (TaskResult(id="one", kind="answer", failure="refused"), Change.UNMEASURED),
        (replace(RUN.tasks[0], answer="no"), Change.OTHER),
        (replace(RUN.tasks[0], figures={"answer_accuracy": 0.0}), Change.WORSE),
    ],
)
def test_what_became_of_a_task(after, change):
    run = replace(RUN, tasks=(after, RUN.tasks[1]))
    assert compare(RUN, run).tasks[0].change is change


def test_figures_on_another_text_are_left_out_and_told():
    found = compare(RUN, replace(RUN, text=OTHER_TEXT))
    assert found.left_out == (
        "the texts differ in sha256: 1212121212121212 before, 9999999999999999 after; "
        "figures on them are left out",
    )
    assert [row.name for row in found.figures] == ["answer_accuracy"]
    assert found.tasks


def test_figures_on_another_set_are_left_out_and_told():
    found = compare(RUN, replace(RUN, tasks_from=OTHER_SET))
    assert "the sets differ in sha256" in found.left_out[0]
    assert [row.name for row in found.figures] == ["perplexity", *AGREEMENT]
    assert found.tasks == ()


def test_an_input_of_one_run_alone_is_told():
    found = compare(RUN, replace(RUN, tasks_from=None, tasks=()))
    assert found.left_out == (
        "only the run before has a set; figures on it are left out",
    )


def test_agreement_is_with_the_run_before_whatever_the_references():
    one = replace(RUN, reference="a" * 64, figures={"top1_agreement": 0.1})
    other = replace(
        one,
        reference="b" * 64,
        continuations=(Continuation(text=" a c", tokens=(1, 3)),),
    )
    found = {row.name: row for row in compare(one, other).figures}
    assert (found["top1_agreement"].before, found["top1_agreement"].after) == (1, 1)
    assert found["greedy_agreement"].after == 0.5
    assert found["greedy_agreement"].change is Change.WORSE
    assert found["logprob_difference"].change is Change.SAME


def test_times_that_are_close_are_called_so():
    def change(before: float, after: float) -> Change:
        return FigureRow(name="gap_p50_s", before=before, after=after).change

    assert change(1.0, 1.09) is change(1.0, 0.91) is Change.CLOSE
    assert (change(1.0, 1.2), change(1.0, 0.5)) == (Change.WORSE, Change.BETTER)
    assert change(1.0, 1.0) is Change.SAME


def test_runs_without_a_common_input_are_refused():
    other = replace(RUN, text=OTHER_TEXT, tasks_from=OTHER_SET)
    with pytest.raises(RunsDiffer, match=r"texts differ in sha256.*sets differ"):
        compare(RUN, other)


def test_an_edited_set_of_tasks_is_refused():
    with pytest.raises(RunsDiffer, match="task 'two' is in one run"):
        compare(RUN, replace(RUN, tasks=RUN.tasks[:1]))


def test_unknown_configurations_are_told():
    unknown = replace(RUN, configuration=None)
    [variable] = compare(RUN, unknown).variables
    assert (variable.name, variable.after) == ("configuration", "unknown")
    assert compare(unknown, unknown).variables == ()


def test_latency_needs_both_inputs():
    figure = FIGURES["gap_p50_s"]
    assert input_key(RUN, figure) != input_key(replace(RUN, text=None), figure)
    assert input_key(RUN, figure) != input_key(replace(RUN, tasks_from=None), figure)
