"""A network whose workers are a distance away from everyone else, for bench-wan.

    relay (market, ledger) -- backbones, one for each arm, as processes
        \\-- injector: every byte of the workers is held by what its link says --/

All workers of a group share one injector, as those behind one access line do: its `up`
carries results and weights, its `down` rows. Every part is a process of its own.
"""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from p2pmoe.demo.facts import Metrics
from p2pmoe.demo.network import Api, wait_until_ready
from p2pmoe.local_network.processes import Child, Stage
from p2pmoe.network.invite import read_invite
from tests.benchmarks.network_processes import (
    READY_WITHIN_S,
    start_relay,
    start_worker,
    through_port,
)
from tests.benchmarks.wan_backbone import BackboneSetting
from tests.benchmarks.wan_placement import Halves, write_use
from tests.support.injector.conditions import NEAR, Link
from tests.support.injector.proxy import Injector

__all__ = ["Backbone", "WanNetwork", "WorkerGroup", "start_alone", "wan_network"]

_ROOT = Path(__file__).resolve().parents[2]
_MOST_BESIDE = 2 / 10  # of the half: a tenth of all experts
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroup:
    """Workers behind one line; each offers so much memory for experts.

    The market counts what a worker holds for each backbone apart.
    """

    names: tuple[str, ...]
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backbone:
    """A running backbone and its API."""

    child: Child
    api: Api


@dataclass(kw_only=True)
class WanNetwork:
    """The running parts; `links` are the groups' injectors, in order."""

    stage: Stage
    halves: Halves
    invite: Path
    links: list[Injector] = field(default_factory=list)
    workers: dict[str, Child] = field(default_factory=dict)
    ways: dict[str, tuple[Path, str]] = field(default_factory=dict)  # invite, memory
    backbones: dict[str, Backbone] = field(default_factory=dict)

    def change(self, link: Link) -> None:
        """Have all workers behind such a line from now on."""
        for injector in self.links:
            injector.change(link)

    async def start_worker(self, name: str) -> None:
        """Start a worker, again after it ended; return once it has joined."""
        (self.stage.folder / f"{name}.ready.json").unlink(missing_ok=True)
        worker = await start_worker(self.stage, name, *self.ways[name])
        await worker.ready(READY_WITHIN_S)
        self.workers[name] = worker

    async def start_backbone(self, name: str, setting: BackboneSetting) -> Backbone:
        """Start one that has the hotter half at hand, and wait for the other half."""
        halves = self.halves
        write_use(halves, self.stage.folder / name)
        setting = replace(
            setting,
            model=str(halves.model),
            data=str(self.stage.folder / name),
            invite=str(self.invite),
            ram_bytes=halves.ram_bytes,
        )
        if setting.prefetch != "off":  # its buffer holds what a pass can need
            setting = replace(
                setting,
                ram_bytes=halves.ram_beside_buffer_bytes,
                ahead_bytes=halves.buffer_bytes,
            )
        backbone = await _start(self.stage, name, setting)
        await wait_until_ready(backbone.api, backbone.child, lambda *_: None)
        self.backbones[name] = backbone
        await self.check_at_hand(backbone)
        return backbone

    async def check_at_hand(self, backbone: Backbone) -> None:
        """Refuse a backbone that has more at hand than its half and a tenth.

        Raises:
            RuntimeError: it has.
        """
        n = Metrics(await backbone.api.metrics()).total("p2pmoe_hot_experts")
        half = self.halves.n_at_hand
        if not half <= n <= half * (1 + _MOST_BESIDE):
            raise RuntimeError(
                f"{backbone.child.name} has {n:.0f} experts at hand, not {half}"
            )

    async def stop_backbone(self, name: str) -> None:
        """End one that is not needed any more."""
        backbone = self.backbones.pop(name)
        await backbone.api.aclose()
        await backbone.child.stop(10.0)


async def start_alone(
    stage: Stage, name: str, halves: Halves, setting: BackboneSetting
) -> Backbone:
    """Start a backbone without a network: half in memory, the rest from its disk."""
    write_use(halves, stage.folder / name)
    setting = replace(
        setting,
        model=str(halves.model),
        data=str(stage.folder / name),
        ram_bytes=halves.ram_bytes,
    )
    backbone = await _start(stage, name, setting)
    await wait_until_ready(backbone.api, backbone.child, lambda *_: None)
    return backbone


@asynccontextmanager
async def wan_network(
    halves: Halves, groups: Sequence[WorkerGroup]
) -> AsyncIterator[WanNetwork]:
    """Run relay and workers while the block runs; no distance to begin with."""
    with TemporaryDirectory(prefix="p2pmoe-wan-") as folder:
        stage = Stage(Path(folder))
        async with trio.open_nursery() as nursery:
            try:
                invite = await start_relay(stage)
                network = WanNetwork(stage=stage, halves=halves, invite=invite)
                for group in groups:
                    await _start_group(network, group, nursery)
                yield network
            finally:
                for backbone in network.backbones.values():
                    await backbone.api.aclose()
                await stage.stop_all()
            nursery.cancel_scope.cancel()


async def _start_group(
    network: WanNetwork, group: WorkerGroup, nursery: trio.Nursery
) -> None:
    relay = read_invite(network.invite).relay
    injector = Injector(relay.host, relay.port, NEAR)
    port = await nursery.start(injector.serve)
    network.links.append(injector)
    distant = through_port(network.invite, port)
    for name in group.names:
        network.ways[name] = distant, str(group.memory_bytes)
        await network.start_worker(name)


async def _start(stage: Stage, name: str, setting: BackboneSetting) -> Backbone:
    """Start the process as the stage starts others."""
    path = stage.folder / f"{name}.setting.json"
    setting.write(path)
    log, ready_file = stage.folder / f"{name}.log", stage.folder / f"{name}.ready.json"
    with log.open("wb") as sink:
        process = await trio.lowlevel.open_process(
            [
                *(sys.executable, "-m", "tests.benchmarks.wan_backbone"),
                *(str(path), "--ready-file", str(ready_file)),
            ],
            cwd=_ROOT,
            env={**os.environ, **_ONE_THREAD},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    child = Child(name=name, process=process, log=log, ready_file=ready_file)
    stage.children.append(child)
    host, port = (await child.ready(READY_WITHIN_S))["listen"]
    return Backbone(child=child, api=Api(host, port))
