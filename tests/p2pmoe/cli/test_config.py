"""`p2pmoe config`, and the precedence flags > variables > file > defaults for real."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("P2PMOE_")}
    return subprocess.run(
        [sys.executable, "-m", "p2pmoe", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**clean, **variables},
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(
        '[serve]\nram = "8G"\nbatch = 4\n[run]\nurl = "http://127.0.0.1:1"\n'
    )
    return path


def shown(*arguments: str, **variables: str) -> dict[str, Any]:
    done = run("config", "show", *arguments, "--json", **variables)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_show_names_the_origin_of_each_value(file: Path) -> None:
    report = shown("serve", P2PMOE_CONFIG=str(file), P2PMOE_SERVE_BATCH="9")
    settings = {row["option"]: row for row in report["settings"]}
    assert report["file"] == str(file)
    assert settings["ram"]["value"] == "8G"
    assert settings["ram"]["origin"] == "file"
    assert settings["batch"]["value"] == "9"
    assert settings["batch"]["origin"] == "P2PMOE_SERVE_BATCH"
    assert settings["queue"]["origin"] == "default"


def test_show_without_a_command_shows_what_is_set_and_what_is_misspelt(
    file: Path,
) -> None:
    report = shown(
        P2PMOE_CONFIG=str(file), P2PMOE_SERVE_RMA="1", P2PMOE_API_KEY="secret"
    )
    assert [row["option"] for row in report["settings"]] == ["url", "ram", "batch"]
    assert report["unknown_variables"] == ["P2PMOE_SERVE_RMA"]
    assert "secret" not in json.dumps(report)


def test_a_command_takes_flag_before_variable_before_file(file: Path) -> None:
    """The address that cannot be reached tells which one was taken."""
    settings = {"P2PMOE_CONFIG": str(file)}
    assert "127.0.0.1:1" in run("run", "hello", **settings).stderr
    settings["P2PMOE_RUN_URL"] = "http://127.0.0.1:2"
    assert "127.0.0.1:2" in run("run", "hello", **settings).stderr
    flag = ("--url", "http://127.0.0.1:3")
    assert "127.0.0.1:3" in run("run", "hello", *flag, **settings).stderr


def test_a_wrong_file_is_one_line_and_help_still_helps(file: Path) -> None:
    file.write_text('[serve]\nrma = "8G"\n')
    done = run("serve", P2PMOE_CONFIG=str(file))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "serve.rma" in done.stderr
    assert run("serve", "--help", P2PMOE_CONFIG=str(file)).returncode == 0


def test_an_unknown_command_is_named() -> None:
    done = run("config", "show", "sevre")
    assert done.returncode == 2
    assert "'sevre'" in done.stderr


def test_path_and_unit_go_to_stdout(file: Path) -> None:
    assert run("config", "path", P2PMOE_CONFIG=str(file)).stdout.strip() == str(file)
    assert "ExecStart=" in run("config", "unit").stdout
