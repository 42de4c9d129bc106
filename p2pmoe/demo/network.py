"""The demo's network: relay, backbone, one hub and three edge workers, as processes.

Starts them in the order in which strangers would: the relay first, then everyone with
the invite it wrote. Nothing here is special to the demo but the folder and the ports.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import trio

from p2pmoe.local_network.network import (
    START_WITHIN_S,
    WorkerOptions,
    start_relay,
    start_worker,
)
from p2pmoe.local_network.processes import Child, ChildFailed, Stage

__all__ = [
    "Api",
    "DemoNetwork",
    "api_of",
    "raise_network",
    "start_backbone",
    "wait_until_ready",
]

COVER_WITHIN_S = 90.0
_POLL_S = 0.1
# Of experts none can hold all of them.
_HUB = WorkerOptions(memory="8M", hub=True)
_EDGE = WorkerOptions(memory="5M")
_OPENING_CREDIT = 1000  # credits an operator lends each new backbone

Progress = Callable[[str, float], None]


class Api:
    """The HTTP side of a backbone: readiness, metrics."""

    def __init__(self, host: str, port: int) -> None:
        self.url = f"http://{host}:{port}"
        self._client = httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=10)

    async def readiness(self) -> dict[str, Any]:
        """Return the answer of /readyz, `phase` and `covered` in it."""
        return dict((await self._client.get("/readyz")).json())

    async def metrics(self) -> str:
        """Return the text page of /metrics."""
        return (await self._client.get("/metrics")).text

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DemoNetwork:
    """The running network; `names` maps a worker's peer id in hex to its name."""

    relay: Child
    backbone: Child
    workers: tuple[Child, ...]
    names: dict[str, str]
    api: Api
    ledger_folder: Path

    def worker(self, peer: str) -> Child:
        """Return the worker process with this peer id."""
        name = self.names[peer]
        return next(child for child in self.workers if child.name == name)


async def raise_network(stage: Stage, ram: str, progress: Progress) -> DemoNetwork:
    """Start every process and wait until all experts have a live holder.

    Args:
        stage: Where the processes live.
        ram: The backbone's `--ram`, room for about a quarter of the experts.
        progress: Called with a label and the share done, 0 to 1.

    Raises:
        ChildFailed: A process ended, or coverage took too long.
    """
    progress("relay, market and ledger", 0.0)
    relay = await start_relay(stage, opening_credit=_OPENING_CREDIT)
    progress("backbone and four workers", 0.1)
    invite = relay.invite
    backbone = await start_backbone(stage, "backbone", ["--invite", invite], ram)
    workers = [await start_worker(stage, "hub", invite, _HUB)]
    workers += [
        await start_worker(stage, f"edge-{n}", invite, _EDGE) for n in (1, 2, 3)
    ]
    names = {}
    for child in workers:
        names[str((await child.ready(START_WITHIN_S))["peer_id"])] = child.name
    api = await api_of(backbone)
    await wait_until_ready(api, backbone, progress)
    return DemoNetwork(
        relay=relay.child,
        backbone=backbone,
        workers=tuple(workers),
        names=names,
        api=api,
        ledger_folder=relay.folder / "ledger",
    )


async def start_backbone(
    stage: Stage, name: str, options: list[str], ram: str
) -> Child:
    """Start `p2pmoe serve pocket` as a process called `name`."""
    return await stage.start(
        name,
        [
            *("serve", "pocket", "--listen", "127.0.0.1:0", "--ram", ram),
            *("--data", str(stage.folder / name), *options),
        ],
    )


async def api_of(backbone: Child) -> Api:
    """Return the API of a backbone once it listens."""
    host, port = (await backbone.ready(START_WITHIN_S))["listen"]
    return Api(host, port)


async def wait_until_ready(api: Api, backbone: Child, progress: Progress) -> None:
    """Wait until the backbone takes traffic, telling how far coverage has come.

    Raises:
        ChildFailed: It ended, or took too long.
    """
    with trio.move_on_after(COVER_WITHIN_S):
        while True:
            if not backbone.is_running:
                raise ChildFailed(f"backbone ended early: {backbone.last_line()}")
            state = await api.readiness()
            covered = float(state.get("covered", 0.0))
            progress(f"backbone: {state['phase']}", 0.2 + 0.8 * covered)
            if state["phase"] == "ready":
                return
            await trio.sleep(_POLL_S)
    raise ChildFailed(f"experts were not covered within {COVER_WITHIN_S:.0f} s")
