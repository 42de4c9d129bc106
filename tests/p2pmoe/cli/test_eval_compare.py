"""`p2pmoe eval compare`: which runs, and what is refused."""

import dataclasses
import json
from pathlib import Path

from typer.testing import CliRunner

from p2pmoe.cli.main import build_app
from p2pmoe.evaluate.errors import RunsDiffer, RunUnreadable
from p2pmoe.evaluate.store import save_run
from tests.support.evaluations import RUN, changed


def run(*arguments: str):
    return CliRunner().invoke(build_app(), ["eval", "compare", *arguments])


def test_runs_are_named_by_file_or_digest(tmp_path: Path):
    before = save_run(tmp_path, RUN)
    after = save_run(tmp_path, changed(profile="r8"))
    done = run(str(before), "last", "--save", str(tmp_path), "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert [v["variable"] for v in found["variables"]] == ["profile"]
    done = run(RUN.digest[:8], after.name, "--save", str(tmp_path), "--json")
    assert json.loads(done.stdout) == found


def test_other_inputs_are_refused(tmp_path: Path):
    before = save_run(tmp_path, dataclasses.replace(RUN, text=None))
    other = dataclasses.replace(RUN, tasks_from=None, tasks=())
    done = run(str(before), str(save_run(tmp_path, other)))
    assert isinstance(done.exception, RunsDiffer)
    assert "nothing to compare" in str(done.exception)


def test_what_is_no_run_is_named(tmp_path: Path):
    (tmp_path / "x.json").write_text("{}")
    done = run(str(tmp_path / "x.json"), "last", "--save", str(tmp_path))
    assert isinstance(done.exception, RunUnreadable)
