"""The real command line: commands that must end by themselves, and those that run.

A bad input ends in exactly one line that begins with "error: ", the last one on stderr,
without traceback, with nothing on stdout, in bounded time. What a command says before
that (where its API listens, what it is about to use) are lines of their own.
"""

import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "NO_FILES",
    "PROGRAM",
    "Outcome",
    "Running",
    "assert_one_error",
    "run",
    "run_all",
]

_AT_ONCE = 4
_WITHIN_S = 240.0
_POLL_S = 0.02
PROGRAM = (sys.executable, "-m", "p2pmoe")
# Every write to a file fails, as on a full disk; pipes and sockets do not mind.
NO_FILES = ("sh", "-c", 'ulimit -f 0; exec "$@"', "sh")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def error(self) -> str:
        """The one error line, without its beginning."""
        (line,) = (x for x in self.err.splitlines() if x.startswith("error: "))
        return line.removeprefix("error: ")


def run(
    *arguments: str,
    program: Sequence[str] = PROGRAM,
    within: Sequence[str] = (),
) -> Outcome:
    """Run one command to its end; `within` is what starts it, such as `NO_FILES`."""
    start = time.monotonic()
    done = subprocess.run(
        [*within, *program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    return Outcome(
        code=done.returncode,
        out=done.stdout,
        err=done.stderr,
        seconds=time.monotonic() - start,
    )


def run_all(
    cases: Mapping[str, Sequence[str]], within: Sequence[str] = ()
) -> dict[str, Outcome]:
    """Run commands by name, a few at a time."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = {
            name: pool.submit(run, *arguments, within=within)
            for name, arguments in cases.items()
        }
        return {name: future.result() for name, future in futures.items()}


def assert_one_error(outcome: Outcome, *parts: str, code: int = 2) -> None:
    """Check that a bad input ended as it must, and that the line holds `parts`."""
    assert outcome.code == code, outcome.err
    assert "Traceback" not in outcome.err, outcome.err
    lines = outcome.err.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert errors == lines[-1:], outcome.err
    for part in parts:
        assert part in errors[0], errors[0]
    assert outcome.out == ""
    assert outcome.seconds < _WITHIN_S / 2


class Running:
    """A command that serves; `report` is what its ready file says."""

    def __init__(
        self, folder: Path, *arguments: str, program: Sequence[str] = PROGRAM
    ) -> None:
        """Start it and wait until it is ready."""
        name = f"{arguments[0]}-{time.monotonic_ns()}"
        self.log = folder / f"{name}.log"
        ready = folder / f"{name}.ready"
        self.log.touch()
        self.process = subprocess.Popen(
            [*program, *arguments, "--ready-file", str(ready)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._wait_for(ready.exists)
        self.report: dict[str, Any] = json.loads(ready.read_text())

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def said(self, words: str) -> None:
        """Wait until these words stand in its log."""
        self._wait_for(lambda: words in self.log.read_text())

    def limit_files(self, n_bytes: int = resource.RLIM_INFINITY) -> None:
        """Let it write files up to so many bytes: 0 is a full disk."""
        limits = (n_bytes, resource.RLIM_INFINITY)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, limits)

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.terminate()
        code = self.process.wait(_WITHIN_S)
        self._reader.join()
        return code

    def kill(self) -> None:
        """Kill it, if it still runs."""
        if self.is_running:
            self.process.kill()
        self.process.wait(_WITHIN_S)
        self._reader.join()

    def _read(self) -> None:
        """Copy what it says into the log: its limits are not the log's."""
        assert self.process.stdout is not None
        with self.process.stdout as said, self.log.open("ab", buffering=0) as log:
            for line in said:
                log.write(line)

    def _wait_for(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _WITHIN_S
        while not holds():
            if not self.is_running or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(self.log.read_text())
            time.sleep(_POLL_S)
