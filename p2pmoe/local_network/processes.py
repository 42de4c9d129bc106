"""Child processes of a network on this machine: start, wait until ready, stop, kill.

Each child is this same program with another command, its output in a log file of its
own. Only processes started here are ever signalled, by their own handle.
"""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from p2pmoe.errors import P2pmoeError

__all__ = ["PROGRAM", "Child", "ChildFailed", "Stage"]

_POLL_S = 0.05
# -P: a folder of this name beside the user is not the program.
PROGRAM = (sys.executable, "-P", "-m", "p2pmoe")


class ChildFailed(P2pmoeError):
    """A process of ours ended or stayed silent where it should have worked."""

    exit_code = 1


@dataclasses.dataclass(slots=True, kw_only=True)
class Child:
    """One process of ours, by name."""

    name: str
    process: trio.Process
    log: Path
    ready_file: Path

    @property
    def pid(self) -> int:
        """The operating system's number of this process."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended yet."""
        return self.process.returncode is None and self.process.poll() is None

    async def ready(self, within_s: float) -> dict[str, Any]:
        """Return what the child wrote into its ready file.

        Raises:
            ChildFailed: It ended first, or took longer than `within_s` seconds.
        """
        with trio.move_on_after(within_s):
            while not self.ready_file.exists():
                if not self.is_running:
                    raise ChildFailed(self.ending())
                await trio.sleep(_POLL_S)
            return dict(json.loads(self.ready_file.read_text(encoding="utf-8")))
        raise ChildFailed(f"{self.name} was not ready after {within_s:.0f} s")

    async def stop(self, within_s: float) -> int | None:
        """Ask the child to drain and end; kill it when `within_s` have passed."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGCONT)
                self.process.terminate()
            with trio.move_on_after(within_s):
                await self.process.wait()
        if self.is_running:
            self.process.kill()
            await self.process.wait()
        return self.process.returncode

    def last_line(self) -> str:
        """Return the last line that the child printed, for an error message."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return "no output"
        return text.splitlines()[-1] if text else "no output"

    def ending(self) -> str:
        """Return its name and how it ended, for an error message."""
        code = self.process.returncode
        if code is not None and code < 0:
            return f"{self.name} was ended by signal {-code}"
        return f"{self.name} ended early: {self.last_line()}"

    def resident_bytes(self) -> int:
        """Return the largest resident memory so far, 0 where the system hides it."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        except OSError:
            return 0
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0


class Stage:
    """Where the processes live: a folder, and every child started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.children: list[Child] = []

    async def start(self, name: str, arguments: Sequence[str]) -> Child:
        """Start `p2pmoe ARGUMENTS --ready-file ...` as a process called `name`."""
        log = self.folder / f"{name}.log"
        ready_file = self.folder / f"{name}.ready.json"
        ready_file.unlink(missing_ok=True)
        command = [*PROGRAM, *arguments, "--ready-file", str(ready_file)]
        with log.open("wb") as sink:
            process = await trio.lowlevel.open_process(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,
            )
        child = Child(name=name, process=process, log=log, ready_file=ready_file)
        self.children.append(child)
        return child

    async def stop_all(self, within_s: float = 10.0) -> None:
        """End every child that still runs; none outlives us."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for child in self.children:
                    nursery.start_soon(child.stop, within_s)


def _environment() -> dict[str, str]:
    # One BLAS thread each: several processes share the machine.
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    return {**os.environ, **one, "PYTHONUNBUFFERED": "1"}
