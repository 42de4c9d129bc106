"""The parts of a network as processes: a relay with market and ledger, and workers.

Nothing is special to them but that they listen on loopback and keep their files below
the stage's folder. The relay is started first; everyone else joins with its invite.
"""

import dataclasses
from pathlib import Path

from p2pmoe.local_network.processes import Child, Stage

__all__ = [
    "START_WITHIN_S",
    "RelayProcess",
    "WorkerOptions",
    "start_relay",
    "start_worker",
]

START_WITHIN_S = 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RelayProcess:
    """A running relay, the invite to its network, and the folder that it keeps."""

    child: Child
    invite: str
    folder: Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What a worker gives, as `p2pmoe contribute` takes it: sizes such as `5M`."""

    memory: str
    disk: str = "2G"
    hub: bool = False


async def start_relay(stage: Stage, *, opening_credit: int) -> RelayProcess:
    """Start relay, market and ledger; return once all of them are up.

    Args:
        stage: where the processes live.
        opening_credit: credits that each new backbone is lent, to pay workers with.

    Raises:
        ChildFailed: the process ended, or was not ready in time.
    """
    folder = stage.folder / "relay"
    child = await stage.start(
        "relay",
        [
            *("relay", "--self-signed", "--listen", "127.0.0.1:0"),
            *("--data", str(folder), "--opening-credit", str(opening_credit)),
        ],
    )
    invite = str((await child.ready(START_WITHIN_S))["invite"])
    return RelayProcess(child=child, invite=invite, folder=folder)


async def start_worker(
    stage: Stage, name: str, invite: str, options: WorkerOptions
) -> Child:
    """Start a worker in a failure domain of its own; it may not have joined yet."""
    as_hub = ["--hub", "--listen", "127.0.0.1:0"] if options.hub else []
    return await stage.start(
        name,
        [
            *("contribute", "--invite", invite, "--yes", "--preset", "max"),
            *("--memory", options.memory, "--disk", options.disk),
            *("--data", str(stage.folder / name), "--domain", name, *as_hub),
        ],
    )
