"""The operator's commands as real processes on loopback, for tests."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["OperatorProcess", "run_operator_command"]

# The real root with the operator's commands alone: these tests need no other.
_PROGRAM = (
    "import p2pmoe.cli.main as root; "
    "root.COMMANDS = ('relay', 'market', 'ledgerd', 'doctor', 'network'); root.main()"
)
_WHOLE = (
    "import sys; sys.modules.update(dict.fromkeys({})); "
    "from p2pmoe.cli.main import main; main()"
)
_POLL_S = 0.02
_ENDS_WITHIN_S = 60.0


def run_operator_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself; return its output and exit code."""
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class OperatorProcess:
    """One running command; `report` is what its ready file says.

    `without`: packages that it cannot import; the whole command line is built then.
    """

    def __init__(
        self, folder: Path, *arguments: str, without: tuple[str, ...] = ()
    ) -> None:
        name = f"{arguments[0]}-{time.monotonic_ns()}"
        ready = folder / f"{name}.ready"
        self.log = folder / f"{name}.log"
        program = _WHOLE.format(without) if without else _PROGRAM
        command = [sys.executable, "-c", program, *arguments]
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(
                [*command, "--ready-file", str(ready)],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + 60
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(self.log.read_text())
            time.sleep(_POLL_S)
        self.report: dict[str, Any] = json.loads(ready.read_text())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=_ENDS_WITHIN_S)

    def kill(self) -> None:
        """Kill it, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=_ENDS_WITHIN_S)
