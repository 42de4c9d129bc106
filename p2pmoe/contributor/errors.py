"""What keeps a contributor's command from doing what it says, in one line each.

P2pmoeError
  WorkerNotRunning     no worker runs on this data folder
  WorkerSilent         one runs, and gave no answer that can be used
  ControlRefused       it runs, and does not do this
"""

from p2pmoe.errors import P2pmoeError

__all__ = ["ControlRefused", "WorkerNotRunning", "WorkerSilent"]


class WorkerNotRunning(P2pmoeError):
    """No worker runs on this data folder."""

    advice = "start one with `p2pmoe contribute`, or name its folder with --data"


class WorkerSilent(P2pmoeError):
    """A worker runs and gave no answer that can be used."""

    advice = "try again; `p2pmoe stop` ends it, or a signal to its process"
    exit_code = 3


class ControlRefused(P2pmoeError):
    """A running worker does not do what it was asked."""
