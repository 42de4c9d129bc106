"""Run all tests, two runs of pytest at once: `python -m tests.side_by_side [OPTIONS]`.

Integration tests mostly wait for processes that they started, the others compute; side
by side they use two cores as two runs one after the other do not. Of the slow ones,
which `-m slow` names, those of the ledger compute too and go with the others, so that
both runs take about as long. Options go to both. What the integration tests say is
printed when both are done. The exit code is 0 if both passed, else that of one that did
not.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["main"]

_APART = Path("tests/integration")
_COMPUTING = "test_*ledger*.py"


def _halves(options: list[str]) -> tuple[list[str], list[str]]:
    """Return what the one run is told to collect, and what the other."""
    if "slow" not in options:
        return [f"--ignore={_APART}"], [str(_APART)]
    moved = sorted(map(str, _APART.glob(_COMPUTING)))
    here = [each for each in _APART.parent.iterdir() if _has_tests(each)]
    apart = [str(_APART), *(f"--ignore={each}" for each in moved)]
    return [*sorted(map(str, here)), *moved], apart


def _has_tests(path: Path) -> bool:
    if path.is_dir():
        return path != _APART and not path.name.startswith("__")
    return path.name.startswith("test_") and path.suffix == ".py"


def main(options: list[str]) -> int:
    """Run both and return the exit code."""
    pytest = [sys.executable, "-m", "pytest", "-q", *options]
    here, apart = _halves(options)
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(
            [*pytest, *apart], stdout=said, stderr=subprocess.STDOUT
        ) as process:
            # An interrupt reaches both, as both are in the terminal's group.
            code = subprocess.call([*pytest, *here])
            code_apart = process.wait()
        said.seek(0)
        print(f"\n{_APART}:", flush=True)
        sys.stdout.buffer.write(said.read())
        sys.stdout.flush()
    return code or code_apart


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
