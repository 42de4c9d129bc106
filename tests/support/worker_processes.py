"""`p2pmoe relay` and `p2pmoe contribute` as real processes on loopback, for tests."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["Process", "run_command"]

_PROGRAM = (
    "import p2pmoe.cli.main as root; "
    "root.COMMANDS = ('relay', 'contribute'); root.main()"
)
_WITHIN_S = 60


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself; return its output and exit code."""
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )


class Process:
    """One running command; `report` is what its ready file says."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self.log = folder / f"{name}.log"
        ready = folder / f"{name}.ready"
        ready.unlink(missing_ok=True)
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-c", _PROGRAM, *arguments),
                    *("--ready-file", str(ready)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + _WITHIN_S
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(self.log.read_text())
            time.sleep(0.02)
        self.report: dict[str, Any] = json.loads(ready.read_text())

    def stop(self, number: int) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=_WITHIN_S)

    def resident_bytes(self) -> int:
        """Return the largest resident memory so far, 0 where the system hides it."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0
        lines = (line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(next(lines).split()[1]) * 1024

    def kill(self) -> None:
        """Kill it, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=_WITHIN_S)
