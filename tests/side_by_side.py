"""Run all tests, two runs of pytest at once: `python -m tests.side_by_side [OPTIONS]`.

Integration tests mostly wait for processes that they started, the others compute; side
by side they use two cores as two runs one after the other do not. So that both take
about as long, the integration tests have those of relay and ledger with them; but of
the slow ones, which `-m slow` names, the ledger's long ones go with the others. Options
go to both. What the second run says is printed when both are done. The exit code is 0
if both passed, else that of one that did not.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["main"]

_TESTS = Path("tests")
_INTEGRATION = _TESTS / "integration"
_WITH_IT = (_TESTS / "ledger", _TESTS / "relay")
_COMPUTING = "test_*ledger*.py"


def _halves(options: list[str]) -> tuple[list[str], list[str]]:
    """Return what the one run is told to collect, and what the other."""
    all_of_it = [each for each in sorted(_TESTS.iterdir()) if _has_tests(each)]
    if "slow" in options:
        moved = sorted(map(str, _INTEGRATION.glob(_COMPUTING)))
        here = [str(each) for each in all_of_it if each != _INTEGRATION]
        ignored = [f"--ignore={each}" for each in moved]
        return [*here, *moved], [str(_INTEGRATION), *ignored]
    apart = (_INTEGRATION, *_WITH_IT)
    return [str(e) for e in all_of_it if e not in apart], [str(e) for e in apart]


def _has_tests(path: Path) -> bool:
    if path.is_dir():
        return not path.name.startswith("__")
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
        print("\nand beside it:", flush=True)
        sys.stdout.buffer.write(said.read())
        sys.stdout.flush()
    return code or code_apart


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
