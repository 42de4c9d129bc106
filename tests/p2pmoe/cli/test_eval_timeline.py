"""`p2pmoe eval timeline`: the table, the picture, and files that are no runs."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from p2pmoe.cli import extras
from p2pmoe.cli.extras import ExtraMissing
from p2pmoe.cli.main import build_app
from p2pmoe.errors import ConfigurationError
from p2pmoe.evaluate.store import save_run
from tests.support.evaluations import RUN, changed


def run(*arguments: str):
    return CliRunner().invoke(build_app(), ["eval", "timeline", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_run(tmp_path, RUN)
    save_run(tmp_path, changed(profile="r8"))
    (tmp_path / "20261130T030000Z-feed-1.json").write_text("{}")
    return tmp_path


def test_runs_are_rows_and_others_are_named(folder: Path):
    done = run("--save", str(folder))
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 3
    assert "passed over:" in done.stderr
    assert "feed-1.json" in done.stderr


def test_the_picture_is_drawn(folder: Path):
    pytest.importorskip("matplotlib")
    picture = folder / "t.svg"
    assert run("--save", str(folder), "--plot", str(picture)).exit_code == 0
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_without_matplotlib_a_line_says_what_to_install(folder: Path, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    done = run("--save", str(folder), "--plot", str(folder / "t.svg"))
    assert isinstance(done.exception, ExtraMissing)
    assert "p2pmoe[plan]" in str(done.exception)


def test_other_pictures_and_none_are_refused(tmp_path: Path):
    pytest.importorskip("matplotlib")
    done = run("--save", str(tmp_path), "--plot", str(tmp_path / "t.png"))
    assert isinstance(done.exception, ConfigurationError)
    done = run("--save", str(tmp_path), "--plot", str(tmp_path / "t.svg"))
    assert "no runs" in str(done.exception)
