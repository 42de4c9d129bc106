"""The wheel: its exact top level, its extensions, and a smoke run from elsewhere."""

import itertools
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOP_LEVEL = {"p2pmoe", "relay", "ledger", "mobile_worker", "p2pmoe-0.1.0.dist-info"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("p2pmoe", "relay", "ledger", "mobile_worker"):
        _copy_tree(ROOT / name, source / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "-o", str(folder), str(source)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return next(folder.glob("*.whl"))


def _copy_tree(origin: Path, target: Path) -> None:
    for path in origin.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            copy = target / path.relative_to(origin)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())


def test_every_c_file_is_named_where_it_is_built() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    modules = project["tool"]["setuptools"]["ext-modules"]
    assert all(module["optional"] for module in modules)
    assert modules[0]["extra-compile-args"] == modules[1]["extra-compile-args"]
    named = {
        name
        for module in modules
        for name in itertools.chain(module["sources"], module["depends"])
    }
    folder = ROOT / "mobile_worker" / "arithmetic" / "c"
    there = {str(path.relative_to(ROOT)) for path in folder.glob("*.[ch]")}
    assert named == there


@pytest.mark.slow
def test_the_wheel_holds_four_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == TOP_LEVEL
    assert "p2pmoe/models/pocket-q4_0.gguf" in names
    assert not [name for name in names if name.endswith((".c", ".h"))]
    for flavour in ("plain", "relaxed"):
        assert f"mobile_worker/arithmetic/wasm/kernel-{flavour}.wasm" in names
    for package in TOP_LEVEL - {"p2pmoe-0.1.0.dist-info"}:
        assert f"{package}/py.typed" in names


@pytest.mark.slow
def test_an_installed_wheel_runs_from_another_folder(wheel: Path, tmp_path: Path):
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", str(wheel)], check=True, timeout=300
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script = home / "bin" / "p2pmoe"
    for command in (["--version"], ["contribute", "--help"], ["relay", "--help"]):
        done = subprocess.run(
            [script, *command],
            cwd=elsewhere,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
