"""Wait until the worker of a folder has ended: until it gives its key free.

The lock on the key file is what a next worker needs, and no process outlives its own.
"""

import time
from collections.abc import Callable
from pathlib import Path

from mobile_worker.session.identity import is_in_use
from p2pmoe.contributor.errors import WorkerSilent

__all__ = ["wait_until_ended"]

_WITHIN_S = 90.0  # a worker has a minute to drain
_LOOK_S = 0.1


def wait_until_ended(
    folder: Path,
    *,
    within_s: float = _WITHIN_S,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once no worker holds the folder's key.

    Raises:
        WorkerSilent: it still does, after so long.
    """
    left_s = within_s
    while is_in_use(folder / "identity"):
        if left_s <= 0:
            raise WorkerSilent(
                f"the worker on {folder} has not ended within {within_s:g} s"
            )
        sleep(_LOOK_S)
        left_s -= _LOOK_S
