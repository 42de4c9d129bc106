"""A service for termux-services (runit) on Android. Pure.

The wake lock keeps the processor on while the worker runs; Android may kill it all the
same, which costs nothing but the time away. runit starts it again as soon as `finish`
ends, which takes half a minute (faults B15).
"""

import shlex
from collections.abc import Sequence

__all__ = ["SERVICE_NAME", "finish_script", "run_script"]

SERVICE_NAME = "p2pmoe-worker"
_NOTE = "# By `p2pmoe service install`; `p2pmoe service uninstall` removes it.\n"


def run_script(shell: str, command: Sequence[str]) -> str:
    """Return the script that runs it; `shell` is where Termux has its sh."""
    return (
        f"#!{shell}\n{_NOTE}exec 2>&1\ntermux-wake-lock\nexec {shlex.join(command)}\n"
    )


def finish_script(shell: str) -> str:
    """Return the script that runs once it has ended."""
    return f"#!{shell}\n{_NOTE}sleep 30\n"
