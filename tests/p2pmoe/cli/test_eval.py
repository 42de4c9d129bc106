"""`p2pmoe eval` is a group that runs by default."""

import pytest
from typer.testing import CliRunner

from p2pmoe.cli import eval_run
from p2pmoe.cli.main import build_app


def run(*arguments: str):
    return CliRunner().invoke(build_app(), ["eval", *arguments])


def test_the_group_shows_its_commands():
    done = run("--help")
    assert done.exit_code == 0
    for name in ("run", "compare", "timeline"):
        assert f"  {name} " in done.stdout


@pytest.mark.parametrize(
    "arguments", [("pocket", "--text", "t"), ("run", "pocket", "--text", "t")]
)
def test_a_first_word_that_is_no_command_is_a_model(arguments, monkeypatch):
    asked: list[str | None] = []

    def wanted(model, *_: object):
        asked.append(model)
        raise SystemExit(7)

    monkeypatch.setattr(eval_run, "_wanted", wanted)
    assert run(*arguments).exit_code == 7
    assert asked == ["pocket"]
