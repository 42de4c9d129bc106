"""This process's priority towards others, as far as the system has one.

On Linux a nice value belongs to a thread and is inherited by those that it starts: it
is set once, before there are any others. It cannot be lowered again by a plain user.
"""

import os

__all__ = ["be_nice"]


def be_nice(nice: int) -> bool:
    """Take at least this nice value (0 to 19); False where there is none."""
    if not hasattr(os, "getpriority"):
        return nice == 0
    try:
        if os.getpriority(os.PRIO_PROCESS, 0) < nice:
            os.setpriority(os.PRIO_PROCESS, 0, nice)
    except OSError:
        return False
    return True
