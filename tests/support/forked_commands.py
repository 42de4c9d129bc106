"""Many commands, each in a process of its own, without starting Python for each.

`run_forked` starts one process that has loaded the program and forks once for every
command: what a command does, says, uses and ends with is its child's own, and its
memory is measured from the moment of the fork.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.command_line import Outcome

__all__ = ["Forked", "run_forked"]

_WITHIN_S = 900.0
# What the commands under test load when they begin.
_MODULES = (
    "p2pmoe.api.server",
    "p2pmoe.backbone.service",
    "p2pmoe.cli.serve",
    "p2pmoe.cli.tables",
    "p2pmoe.inspect.foreign",
    "p2pmoe.inspect.report",
    "p2pmoe.weights.model_file",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """How a command ended, and by how much its resident memory grew at most."""

    outcome: Outcome
    growth_bytes: int


def run_forked(commands: Sequence[Sequence[str]]) -> list[Forked]:
    """Run commands one after the other, each in a child of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.forked_commands"],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [
        Forked(outcome=Outcome(**each["outcome"]), growth_bytes=each["growth_bytes"])
        for each in json.loads(done.stdout)
    ]


def _run(arguments: Sequence[str]) -> dict[str, object]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            _become(arguments, out.fileno(), err.fileno())
        _, status, usage = os.wait4(child, 0)
        seconds = time.monotonic() - start
        for stream in (out, err):
            stream.seek(0)
        outcome = {
            "code": os.waitstatus_to_exitcode(status),
            "out": out.read(),
            "err": err.read(),
            "seconds": seconds,
        }
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"outcome": outcome, "growth_bytes": (usage.ru_maxrss - own) * 1024}


def _become(arguments: Sequence[str], out: int, err: int) -> None:
    """Be the command, in the child, and never return."""
    from p2pmoe.cli.main import main

    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.argv = ["p2pmoe", *arguments]
    code = 1
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - what Python does with it
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for module in _MODULES:
        __import__(module)
    print(json.dumps([_run(each) for each in json.load(sys.stdin)]))
