"""Faults B25: the relay under bytes that were changed on the way, asserts on and off.

The programs run in processes of their own (tests/support/relay_fuzz.py), so that their
memory is theirs alone and `python -O` can be tried.
"""

import json
import subprocess
import sys

import pytest

GROWN_BYTES = 50_000_000


def fuzz(*words: str, optimised: bool) -> dict[str, int]:
    """Run the program; what it found."""
    command = [sys.executable, *(["-O"] if optimised else [])]
    done = subprocess.run(
        [*command, "-m", "tests.support.relay_fuzz", *words],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    assert found["asserts"] != optimised
    assert found["internal_errors"] == 0
    assert found["grown_bytes"] < GROWN_BYTES
    return found


@pytest.mark.parametrize(
    ("n", "optimised"),
    [
        (10_000, False),
        pytest.param(100_000, True, marks=pytest.mark.slow),
    ],
)
def test_b25_mutated_frames_raise_protocol_error_or_nothing(
    n: int, optimised: bool
) -> None:
    found = fuzz("parsers", str(n), optimised=optimised)
    # Some changes leave a frame as good as before; most do not.
    assert n // 2 < found["refused"] < n


@pytest.mark.parametrize(
    ("n", "optimised"), [(200, True), pytest.param(3_000, True, marks=pytest.mark.slow)]
)
def test_b25_connections_that_go_wrong_anywhere_leave_the_relay_up(
    n: int, optimised: bool
) -> None:
    found = fuzz("port", str(n), optimised=optimised)
    assert found["refused"] > n // 2
