"""A launchd agent for a worker on macOS. Pure.

It runs in its user's session as a background process: low priority for CPU and disk. A
crash starts it again after half a minute at the earliest (faults B15); one that drained
(exit code 0) stays ended. Source: launchd.plist(5).
"""

import plistlib
from collections.abc import Sequence
from pathlib import Path

__all__ = ["AGENT_LABEL", "agent_text"]

AGENT_LABEL = "org.p2pmoe.worker"


def agent_text(command: Sequence[str], data: Path) -> str:
    """Return the property list of a worker that is started by `command`."""
    log = str(data / "worker.log")
    agent = {
        "Label": AGENT_LABEL,
        "ProgramArguments": list(command),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 30,
        "ExitTimeOut": 60,
        "ProcessType": "Background",
        "LowPriorityIO": True,
        "Nice": 10,
        "Umask": 0o077,
        "EnvironmentVariables": {"PYTHONUNBUFFERED": "1"},
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    return plistlib.dumps(agent, sort_keys=False).decode()
