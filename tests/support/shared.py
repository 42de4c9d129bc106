"""Where the shared references lie, and what a test does without them.

The models, references and vectors made by others stay outside the project, in
`../shared`. A clone without them skips the tests that need them, with the reason;
with P2PMOE_REQUIRE_SHARED=1 such a skip is a failure.
"""

import os
from pathlib import Path

import pytest

__all__ = ["shared_path"]

_SHARED = Path(__file__).resolve().parents[3] / "shared"


def shared_path(relative: str) -> Path:
    """Return a path below ../shared, or skip the calling test with the reason."""
    path = _SHARED / relative
    if path.exists():
        return path
    reason = f"needs ../shared/{relative}, which this clone does not have"
    if os.environ.get("P2PMOE_REQUIRE_SHARED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
