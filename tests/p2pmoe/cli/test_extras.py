"""A command whose extra packages are missing ends in one line, not a traceback."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from p2pmoe.cli import extras
from p2pmoe.cli.extras import ExtraMissing, check_extra, missing_extra

ROOT = Path(__file__).resolve().parents[3]
LINE = (
    "error: serving needs the extra packages of p2pmoe[serve]. "
    "Install them: pip install 'p2pmoe[serve]'"
)
# A base install, in which these cannot be imported.
BASE_INSTALL = (
    "import sys; sys.modules.update(dict.fromkeys"
    "(('tokenizers', 'jinja2', 'starlette', 'hypercorn'))); "
    "from p2pmoe.cli.main import main; main()"
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BASE_INSTALL, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", ["serve pocket", "demo"])
def test_serving_without_its_packages_is_one_line(command: str, tmp_path: Path) -> None:
    option = "--keep" if command == "demo" else "--data"
    done = run(*command.split(), option, str(tmp_path / "folder"))
    assert done.stderr.splitlines() == [LINE]
    assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / "folder").exists()


def test_the_other_commands_do_without() -> None:
    done = run("contribute", "wss://127.0.0.1:1/relay", "--threads", "0")
    assert "0 threads" in done.stderr


def test_every_extra_of_the_project_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    stated = project["project"]["optional-dependencies"]
    assert set(extras._EXTRAS.values()) == set(stated) == set(extras._NEEDS)
    for module, extra in extras._EXTRAS.items():
        assert any(each.startswith(module) for each in stated[extra])


def test_the_extra_is_found_by_the_modules_name() -> None:
    missing = missing_extra(ModuleNotFoundError(name="psycopg.adapt"))
    assert missing is not None
    assert missing.advice == "install them: pip install 'p2pmoe[postgres]'"
    assert missing_extra(ModuleNotFoundError(name="abacus")) is None
    assert missing_extra(ModuleNotFoundError()) is None


def test_packages_are_looked_for_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_extra("serve")
    monkeypatch.setitem(sys.modules, "hypercorn", None)
    with pytest.raises(ExtraMissing, match="serving"):
        check_extra("serve")
