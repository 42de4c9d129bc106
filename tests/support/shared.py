"""Where the shared references lie, and what a test does without them.

The models, references and vectors made by others stay outside the project, in
`../shared`. A clone without them skips the tests that need them, with the reason;
with P2PMOE_REQUIRE_SHARED=1 such a skip is a failure. So is that for want of a program
which `.ci/run` installs.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest

__all__ = ["shared_path", "tool_path"]

_SHARED = Path(__file__).resolve().parents[3] / "shared"


def shared_path(relative: str) -> Path:
    """Return a path below ../shared, or skip the calling test with the reason."""
    path = _SHARED / relative
    if not path.exists():
        _give_up(f"needs ../shared/{relative}, which this clone does not have")
    return path


def tool_path(name: str) -> str:
    """Return where a program is, or skip the calling test with the reason.

    Those that come with a Python package lie beside the interpreter.
    """
    beside = str(Path(sys.executable).parent)
    found = shutil.which(name) or shutil.which(name, path=beside)
    if found is None:
        _give_up(f"needs the program {name}")
    return found


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("P2PMOE_REQUIRE_SHARED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
