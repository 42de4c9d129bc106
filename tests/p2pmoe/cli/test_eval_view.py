"""What `eval` prints."""

import dataclasses
import json
import sys
from pathlib import Path

from p2pmoe.cli.eval_view import print_comparison, print_run, print_timeline
from p2pmoe.evaluate.comparison import compare
from p2pmoe.evaluate.run_record import TaskResult
from p2pmoe.evaluate.timeline import timeline
from tests.support.evaluations import RUN, changed


def columns(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_a_run_is_a_row_a_figure(capsys):
    print_run(RUN, Path("r.json"), as_json=False)
    out, err = capsys.readouterr()
    rows = columns(out)
    assert rows[0] == ["figure", "value", "unit", "better", "what"]
    assert [row[:4] for row in rows[1:]] == [
        ["perplexity", "40.5", "", "lower"],
        ["answer_accuracy", "0.5", "share", "higher"],
        ["first_token_p50_s", "0.01", "s", "lower"],
    ]
    assert err == ""


def test_tasks_without_figures_are_named_a_few(capsys):
    failed = [TaskResult(id=f"t{n}", kind="tools", failure="no") for n in range(7)]
    run = dataclasses.replace(RUN, tasks=tuple(failed))
    print_run(run, Path("r.json"), as_json=True)
    out, err = capsys.readouterr()
    assert err.splitlines()[0] == "task t0 was not measured: no"
    assert err.splitlines()[-1] == "and 2 tasks more"
    document = json.loads(out)
    assert (document["n_tasks_failed"], document["file"]) == (7, "r.json")
    assert "windows" not in document
    assert document["configuration"]["digest"] == RUN.digest


def test_a_comparison_has_three_parts(capsys):
    other = dataclasses.replace(changed(profile="r8"), figures={"perplexity": 41.0})
    print_comparison(compare(RUN, other), as_json=False)
    rows = columns(capsys.readouterr().out)
    assert rows[1] == ["profile", "r16", "r8"]
    assert ["perplexity", "40.5", "41.0", "0.5", "", "worse"] in rows
    assert ["two", "answer", "0.0", "0.0", "unchanged"] in rows
    print_comparison(compare(RUN, RUN), as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["variables"] == []
    assert {row["change"] for row in document["tasks"]} == {"unchanged"}


def test_what_is_left_out_is_told(capsys):
    other = dataclasses.replace(RUN, tasks_from=None, tasks=())
    print_comparison(compare(RUN, other), as_json=False)
    assert "only the run before has a set" in capsys.readouterr().err


def test_a_timeline_is_a_row_a_run(capsys):
    moments = timeline([("a", RUN), ("b", changed(profile="r8", disk="off"))])
    print_timeline(moments, as_json=False)
    rows = columns(capsys.readouterr().out)
    assert rows[0][:5] == ["made", "model", "configuration", "changed", "perplexity"]
    assert [row[3] for row in rows[1:]] == ["new", "disk, profile"]
    print_timeline(moments, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document[1]["changed"] == ["disk", "profile"]


def test_a_timeline_on_a_terminal_is_short(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    run = dataclasses.replace(RUN, figures={"perplexity": 387.882727})
    print_timeline(timeline([("a", run)]), as_json=False)
    out = capsys.readouterr().out
    assert "387.88 " in out
    assert RUN.digest[:8] in out
    assert RUN.digest[:16] not in out
