"""Measure in a child process whose BLAS has one thread, as the demo's processes have.

The module measured has `measure() -> list[Figure]` and ends with

    if __name__ == "__main__":
        tell(measure())
"""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.figures import Figure

__all__ = ["measured_on_one_core", "pin_to_one_core", "tell"]

_ROOT = Path(__file__).resolve().parents[2]
_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def measured_on_one_core(module: str) -> list[Figure]:
    """Run a module as the child and return what it tells."""
    child = subprocess.run(
        [sys.executable, "-m", module],
        env={**os.environ, **dict.fromkeys(_VARIABLES, "1")},
        cwd=_ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [Figure(**fields) for fields in json.loads(child.stdout)]


def pin_to_one_core() -> None:
    """Bind this process, and those that it starts, to one core where that is possible.

    Then no library can use a second one, whatever it makes of its settings.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def tell(figures: Sequence[Figure]) -> None:
    """Print figures for the parent."""
    print(json.dumps([dataclasses.asdict(one) for one in figures]))
