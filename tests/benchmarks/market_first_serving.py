"""From `contribute` on an empty machine to the first serving that is paid: seconds.

A network on loopback as `p2pmoe demo` raises it (relay with market and ledger, the
pocket model's backbone, one hub) answers one prompt after the other. Then a worker
starts with an empty folder, and the clock with its process: joined, first expert in
memory, all of them, first serving accepted, first serving signed by both sides, which
is what is paid. Beside it, the same with its shards in the store (a restart).

The worker is asked every 50 ms and looks at itself four times a second: a figure is up
to 0.3 s late.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio

from p2pmoe.contributor.client import ask_worker
from p2pmoe.contributor.errors import ControlRefused, WorkerNotRunning, WorkerSilent
from tests.benchmarks.figures import Figure, figure
from tests.support.generations import PROMPTS
from tests.support.networks import Network, network_running

__all__ = ["run"]

_ROUNDS = 3
_TARGET_S = 10.0
_GIVE_UP_S = 60.0
_POLL_S = 0.05
_NAME = "edge-1"

Said = Mapping[str, Any]

# What has happened once a report of the worker satisfies it.
_MOMENTS: Mapping[str, Callable[[Said], bool]] = {
    "it has joined": lambda said: said["relay_is_up"],
    "an expert is in memory": lambda said: said["experts_held"] > 0,
    "all that it leases is in memory": lambda said: (
        0 < said["experts_leased"] == said["experts_held"]
    ),
    "a serving is accepted": lambda said: said["accepted"] > 0,
    "a serving is signed by both, and paid": lambda said: said["signed"] > 0,
}


def run() -> list[Figure]:
    """Measure some rounds, each on a network of its own."""
    rounds = [trio.run(_round) for _ in range(_ROUNDS)]
    figures = []
    for what in _MOMENTS:
        empty = [each[0][what] for each in rounds]
        warm = [each[1][what] for each in rounds]
        at_most = _TARGET_S if what.endswith("paid") else None
        figures += [
            figure(f"empty machine until {what}", "s", empty, at_most=at_most),
            figure(f"started again until {what}", "s", warm),
        ]
    return figures


async def _round() -> list[Mapping[str, float]]:
    """Return the moments of a first start, and of the next one."""
    folder = Path(tempfile.mkdtemp(prefix="p2pmoe-first-"))
    try:
        async with network_running(folder, workers=("hub",), apart=False) as network:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_ask_on, network)
                starts = [
                    await _moments(network, network.start_worker),
                    await _moments(network, network.start),
                ]
                nursery.cancel_scope.cancel()
        return starts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _ask_on(network: Network) -> None:
    while True:
        for prompt in PROMPTS:
            await network.answer(prompt)


async def _moments(
    network: Network, start: Callable[[str], Any]
) -> Mapping[str, float]:
    """Start the worker; return after how many seconds what was first so. Then stop."""
    started = time.perf_counter()
    moments: dict[str, float] = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(start, _NAME)
        with trio.fail_after(_GIVE_UP_S):
            while len(moments) < len(_MOMENTS):
                await trio.sleep(_POLL_S)
                said = await trio.to_thread.run_sync(_said, network.folder / _NAME)
                now = time.perf_counter() - started
                for what, holds in _MOMENTS.items():
                    if what not in moments and said and holds(said):
                        moments[what] = now
    await network.stop(_NAME)
    return moments


def _said(folder: Path) -> Said:
    try:
        return ask_worker(folder, "status", wait_s=1.0)
    except (WorkerNotRunning, WorkerSilent, ControlRefused):
        return {}
