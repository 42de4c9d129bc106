"""`p2pmoe run` against a scripted API."""

import json

import pytest
from typer.testing import CliRunner

from p2pmoe.cli.main import build_app
from p2pmoe.client import Completion, TextDelta


@pytest.fixture
def asked(monkeypatch):
    bodies: list[dict] = []

    def complete(url, body, *, key, show, watch):
        bodies.append({"url": url, "key": key, **body})
        steps = [{"calls": {"ram": 2}, "seconds": 0.5}] if "explain" in body else []
        hashes = [[0, 1, None, "0" * 16]] if "trace" in body else []
        layer = {"layer": 3, "missing": [7], "trips": 1, "wait_s": 0.02}
        told = {"seconds": 0.5, "n_committed": 1, "trips": 1, "layers": [layer]}
        passes = [told] if "trace" in body else []
        extension = {"steps": steps, "hashes": hashes, "passes": passes}
        watch(TextDelta(text="once upon", extension=extension))
        show("once upon")
        return Completion(
            text="once upon",
            finish_reason="length",
            usage={
                "completion_tokens": 64,
                "prompt_tokens_details": {"cached_tokens": 7},
            },
            extension={
                "round_trips": 0,
                "round_trips_per_token": 2.0 / 3,
                "hedges": 0,
                "failovers": 1,
            },
        )

    monkeypatch.setattr("p2pmoe.client.complete", complete)
    return bodies


def test_text_goes_to_stdout(asked):
    result = CliRunner().invoke(build_app(), ["run", "There was", "--seed", "5"])
    assert result.exit_code == 0
    assert result.stdout == "once upon\n"
    assert asked[0]["prompt"] == "There was"
    assert asked[0]["seed"] == 5


def test_json_is_one_object(asked):
    result = CliRunner().invoke(build_app(), ["run", "x", "--json"])
    report = json.loads(result.stdout)
    assert report["text"] == "once upon"
    assert report["p2pmoe"]["failovers"] == 1
    assert "seed" not in asked[0]


def test_explain_goes_to_stderr(asked):
    result = CliRunner().invoke(build_app(), ["run", "x", "--explain"])
    assert result.stdout == "once upon\n"
    assert asked[0]["explain"] is True
    header, prompt, total, *rest = result.stderr.splitlines()
    assert header.startswith("step\ttext\tram\t")
    assert prompt.startswith("prompt\tonce upon\t2\t")
    assert total.startswith("total\t\t2\t")
    assert rest == [
        "cached tokens           7",
        "round trips per token   0.667",
        "failovers               1",
    ]
    assert len(asked) == 1


def test_what_a_backbone_says_does_not_steer_a_terminal(monkeypatch):
    def complete(url, body, *, key, show, watch):
        steered = {"calls": {"\x1b[2J": "\x07"}, "a\nb": "\ud800"}
        return Completion(text="x", finish_reason="stop", usage={}, extension=steered)

    monkeypatch.setattr("p2pmoe.client.complete", complete)
    result = CliRunner().invoke(build_app(), ["run", "x", "--explain"])
    assert result.exit_code == 0
    calls, other = result.stderr.splitlines()
    assert calls.split() == ["calls", "\\x1b[2J", "\\x07"]
    assert other.split() == ["a\\nb", "\\ud800"]


def test_a_context_that_ended_the_answer_is_told(asked):
    result = CliRunner().invoke(build_app(), ["run", "x", "--max-tokens", "65"])
    assert result.stdout == "once upon\n"
    assert result.stderr == "the context is full after 64 tokens\n"
    assert len(asked) == 1


@pytest.mark.parametrize("figure", ["many", None, [], {}])
def test_figures_that_are_none_are_no_error(monkeypatch, figure):
    def complete(url, body, *, key, show, watch):
        return Completion(
            text="x",
            finish_reason="length",
            usage={"completion_tokens": figure, "prompt_tokens_details": figure},
            extension={"dropped_calls": figure},
        )

    monkeypatch.setattr("p2pmoe.client.complete", complete)
    for options in ([], ["--explain"], ["--json"]):
        result = CliRunner().invoke(build_app(), ["run", "x", *options])
        assert result.exit_code == 0


def test_an_answer_that_is_not_exact_says_so(monkeypatch):
    def complete(url, body, *, key, show, watch):
        show("x")
        return Completion(
            text="x", finish_reason="stop", usage={}, extension={"dropped_calls": 3}
        )

    monkeypatch.setattr("p2pmoe.client.complete", complete)
    result = CliRunner().invoke(build_app(), ["run", "x"])
    assert result.stderr == "3 expert calls were left out: the answer is not exact\n"


def test_explain_as_json_has_the_steps(asked):
    result = CliRunner().invoke(build_app(), ["run", "x", "--json", "--explain"])
    (step,) = json.loads(result.stdout)["steps"]
    assert (step["text"], step["ram"], step["seconds"]) == ("once upon", 2, 0.5)


def test_trace_keeps_the_run_in_a_file(asked, tmp_path, monkeypatch):
    card = {"p2pmoe": {"configuration": {"profile": "r16"}}}
    monkeypatch.setattr("p2pmoe.cli.trace_file.served_model", lambda url, *, key: card)
    path = tmp_path / "run.trace"
    result = CliRunner().invoke(build_app(), ["run", "x", "--trace", str(path)])
    assert result.exit_code == 0
    assert result.stdout == "once upon\n"
    assert asked[0]["trace"] is True
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[1]["input"] == {"prompt": "x", "max_tokens": 64, "temperature": 0.0}
    assert lines[2]["configuration"] == {"profile": "r16"}
    assert lines[3]["pass"]["layers"][0]["missing"] == [7]
    assert lines[4] == {"position": 0, "hashes": [[1, None, "0" * 16]]}
    assert lines[5]["end"] == "length"
    assert asked[0]["explain"] is True
    assert not result.stderr
