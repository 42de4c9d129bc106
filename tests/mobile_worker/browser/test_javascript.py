"""The page's JavaScript: every `*.test.mjs` here, by node's own test runner."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.shared import tool_path

FOLDER = Path(__file__).parent
SOURCES = Path(__file__).resolve().parents[3] / "mobile_worker" / "browser"
MIN_NODE = 20
MAX_LINES = 400


def node() -> str:
    """Return the program, or skip; one that is too old is none."""
    program = tool_path("node")
    said = subprocess.run((program, "--version"), capture_output=True, check=True)
    major = int(said.stdout.decode().removeprefix("v").partition(".")[0])
    if major < MIN_NODE:
        reason = f"needs node {MIN_NODE}, found {major}"
        if os.environ.get("P2PMOE_REQUIRE_SHARED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return program


def test_the_modules_pass_their_tests() -> None:
    tests = sorted(FOLDER.glob("*.test.mjs"))
    done = subprocess.run(
        (node(), "--no-warnings", "--test", *tests),
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]


def test_every_module_is_short_and_has_tests() -> None:
    modules = sorted(SOURCES.glob("*.js"))
    assert modules
    for module in modules:
        text = module.read_text(encoding="utf-8")
        assert text.startswith("/**"), f"{module.name} does not say what it is"
        assert len(text.splitlines()) <= MAX_LINES, f"{module.name} is too long"
        assert "eval(" not in text
        assert "Function(" not in text
