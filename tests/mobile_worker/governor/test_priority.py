"""Niceness is taken and never given back; tried in a process of its own."""

import subprocess
import sys

_CHILD = """
import os
from mobile_worker.governor.priority import be_nice
assert be_nice(0)
before = os.getpriority(os.PRIO_PROCESS, 0)
assert be_nice(19)
assert os.getpriority(os.PRIO_PROCESS, 0) == 19
assert be_nice(5)
assert os.getpriority(os.PRIO_PROCESS, 0) == 19
"""


def test_niceness_only_grows() -> None:
    subprocess.run([sys.executable, "-c", _CHILD], check=True, timeout=60)
