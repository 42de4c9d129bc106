"""Run all tests, two runs of pytest at once: `python -m tests.side_by_side [OPTIONS]`.

Integration tests mostly wait for processes that they started, the others compute; side
by side they use two cores as two runs one after the other do not. Options go to both.
What the integration tests say is printed when both are done. The exit code is 0 if both
passed, else that of one that did not.
"""

import subprocess
import sys
import tempfile

__all__ = ["main"]

_APART = "tests/integration"


def main(options: list[str]) -> int:
    """Run both and return the exit code."""
    pytest = [sys.executable, "-m", "pytest", "-q", *options]
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(
            [*pytest, _APART], stdout=said, stderr=subprocess.STDOUT
        ) as apart:
            # An interrupt reaches both, as both are in the terminal's group.
            code = subprocess.call([*pytest, f"--ignore={_APART}"])
            code_apart = apart.wait()
        said.seek(0)
        print(f"\n{_APART}:", flush=True)
        sys.stdout.buffer.write(said.read())
        sys.stdout.flush()
    return code or code_apart


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
