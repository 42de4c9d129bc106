"""`p2pmoe trace show`: the passes of a file, as `run --explain` has them."""

import json
from pathlib import Path

from typer.testing import CliRunner

from p2pmoe.cli.main import build_app
from p2pmoe.errors import ConfigurationError
from tests.p2pmoe.cli.test_trace_plot import PASSES, trace


def show(*arguments: str) -> str:
    result = CliRunner().invoke(build_app(), ["trace", "show", *arguments])
    assert result.exit_code == 0
    return result.stdout


def test_tables_and_sums(tmp_path: Path) -> None:
    path = trace(tmp_path / "a", PASSES)
    passes, _, sums = show(path).lstrip("\n").split("\n\n")
    assert [line.split("\t")[0] for line in passes.splitlines()] == [
        "pass",
        "prompt",
        "1",
        "2",
    ]
    assert "trips per token         0.750" in sums
    passes, *_ = show(path, "--skip", "2").lstrip("\n").split("\n\n")
    assert [line.split("\t")[0] for line in passes.splitlines()] == ["pass", "2"]


def test_as_json(tmp_path: Path) -> None:
    found = json.loads(show(trace(tmp_path / "a", PASSES), "--json", "--passes", "2"))
    assert (found["n_passes"], found["n_prompt_passes"]) == (3, 1)
    assert [each["n_committed"] for each in found["passes"]] == [1, 3]


def test_where_nothing_is_to_show_the_error_says_why(tmp_path: Path) -> None:
    for records, advice in ((PASSES, "lower --skip"), ([], "p2pmoe run --trace FILE")):
        arguments = ["trace", "show", trace(tmp_path / "a", records), "--skip", "9"]
        result = CliRunner().invoke(build_app(), arguments)
        assert isinstance(result.exception, ConfigurationError)
        assert advice in result.exception.advice
