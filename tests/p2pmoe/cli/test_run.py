"""`p2pmoe run` against a scripted API."""

import json

import pytest
from typer.testing import CliRunner

from p2pmoe.cli.main import build_app
from p2pmoe.client import Completion


@pytest.fixture
def asked(monkeypatch):
    bodies: list[dict] = []

    def complete(url, body, *, key, show):
        bodies.append({"url": url, "key": key, **body})
        show("once upon")
        return Completion(
            text="once upon",
            finish_reason="length",
            usage={"completion_tokens": 64},
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
    assert result.stderr.splitlines() == [
        "round trips             0",
        "round trips per token   0.667",
        "failovers               1",
    ]
    assert len(asked) == 1


def test_a_context_that_ended_the_answer_is_told(asked):
    result = CliRunner().invoke(build_app(), ["run", "x", "--max-tokens", "65"])
    assert result.stdout == "once upon\n"
    assert result.stderr == "the context is full after 64 tokens\n"
    assert len(asked) == 1
