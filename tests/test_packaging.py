"""The wheel: its top level, its extensions, and that it runs elsewhere, by whatever is
there: without a compiler, and on processors that this machine is not.
"""

import importlib.util
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("p2pmoe", "relay", "ledger", "mobile_worker")
TOP_LEVEL = {*PACKAGES, "p2pmoe-0.1.0.dist-info"}
EMULATOR = "qemu-x86_64-static"
TRY_KERNELS = """
import json, sys
from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.select import try_kernel
trials = [try_kernel(each) for each in kernel_candidates()]
print(json.dumps({trial.name: trial.outcome for trial in trials}))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of what is packaged, without what was built here.

    Skips where no packages can be had: each test here builds or installs.
    """
    probe = (sys.executable, "-m", "pip", "download", "--no-deps", "setuptools>=77")
    nowhere = tmp_path_factory.mktemp("probe")
    done = subprocess.run(probe, cwd=nowhere, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("no package index can be reached")
    folder = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for name in (*PACKAGES, "build_backend"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = (sys.executable, "-m", "build", "--wheel", "-o", folder, source)
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of an environment that holds the wheel and what it needs."""
    programs = new_environment(tmp_path_factory.mktemp("installed"))
    command = (programs / "python", "-m", "pip", "install", "--quiet", wheel)
    subprocess.run(command, check=True, timeout=900)
    return programs


def new_environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / "bin"


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


def test_on_a_phone_what_would_be_built_is_refused_first(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")  # which newer Pythons install where they build
    spec = importlib.util.spec_from_file_location(
        "p2pmoe_build", ROOT / "build_backend" / "p2pmoe_build.py"
    )
    assert spec is not None
    assert spec.loader is not None
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    assert backend.refusal("linux", "") == ""
    prefix = tmp_path / "com.termux" / "usr"
    packages = prefix / "lib" / "python3.14" / "site-packages"
    for name in ("numpy", "msgpack"):
        (packages / name).mkdir(parents=True)
    why = backend.refusal("android", str(prefix))
    assert why.startswith("error: python-cryptography must come from Termux itself")
    assert "pkg install python python-cryptography;" in why
    assert backend.refusal("linux", str(prefix)) == why  # an older Python there
    (packages / "cryptography").mkdir()
    assert backend.refusal("android", str(prefix)) == ""


@pytest.mark.slow
def test_pip_on_a_phone_ends_before_it_builds(source: Path, tmp_path: Path) -> None:
    surroundings = os.environ | {"PREFIX": "/data/data/com.termux/files/usr"}
    own = tmp_path / "source"
    shutil.copytree(source, own, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    done = subprocess.run(
        (sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", own),
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode != 0
    assert "pkg install python python-numpy python-cryptography" in (
        done.stdout + done.stderr
    )


@pytest.mark.slow
def test_the_wheel_holds_four_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == TOP_LEVEL
    assert "p2pmoe/models/pocket-q4_0.gguf" in names
    assert "relay/web/status.html" in names
    assert "mobile_worker/browser/session.js" in names
    assert not [name for name in names if name.endswith((".c", ".h"))]
    for flavour in ("plain", "relaxed"):
        assert f"mobile_worker/arithmetic/wasm/kernel-{flavour}.wasm" in names
    for package in PACKAGES:
        assert f"{package}/py.typed" in names


@pytest.mark.slow
def test_an_installed_wheel_runs_from_another_folder(
    installed: Path, tmp_path: Path
) -> None:
    for command in (["--version"], ["contribute", "--help"], ["relay", "--help"]):
        done = subprocess.run(
            [installed / "p2pmoe", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_without_a_compiler_it_installs_and_runs_on_wasm(
    source: Path, tmp_path: Path
) -> None:
    programs = new_environment(tmp_path / "environment")
    surroundings = {k: v for k, v in os.environ.items() if k not in {"CC", "CXX"}}
    surroundings |= {"PATH": str(programs), "P2PMOE_KERNEL": ""}
    own = tmp_path / "source"  # the other tests' copy holds what a compiler left
    shutil.copytree(source, own, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    assert shutil.which("cc", path=str(programs)) is None
    # Of everything that it depends on a wheel is taken, or the install fails.
    wheels_alone = ("--only-binary=:all:", own)
    subprocess.run(
        (programs / "python", "-m", "pip", "install", "--quiet", *wheels_alone),
        env=surroundings,
        check=True,
        timeout=900,
    )
    done = subprocess.run(
        (programs / "p2pmoe", "bench", "kernels", "--json"),
        env=surroundings,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    report = json.loads(done.stdout)
    assert report["chosen"].startswith("wasm/")
    reasons = {each["name"]: each["reason"] for each in report["kernels"]}
    assert "not built" in reasons["native/portable"]
    find = "import importlib.util as u; print(u.find_spec('pydantic_core'))"
    found = subprocess.run(
        (programs / "python", "-c", find), capture_output=True, text=True, check=True
    )
    assert found.stdout == "None\n"  # it is Rust, and has no wheel for a phone
    (line,) = done.stderr.splitlines()
    assert "install a C compiler" in line


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="this wheel is not for x86")
@pytest.mark.skipif(shutil.which(EMULATOR) is None, reason=f"no {EMULATOR}")
@pytest.mark.parametrize(
    ("processor", "right", "missing"),
    [
        ("Haswell", {"native/avx2", "native/portable"}, {"native/avx512"}),
        ("Nehalem", {"native/portable"}, {"native/avx512", "native/avx2"}),
    ],
)
def test_the_wheel_computes_rightly_on_lesser_processors(
    installed: Path, processor: str, right: set[str], missing: set[str]
) -> None:
    done = subprocess.run(
        (EMULATOR, "-cpu", processor, installed / "python", "-c", TRY_KERNELS),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert {name for name in outcomes if outcomes[name] == "failed"} == set()
    assert {*right, "numpy"} <= {n for n in outcomes if outcomes[n] == "passed"}
    assert missing <= {name for name in outcomes if outcomes[name] == "missing"}
