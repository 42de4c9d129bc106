"""Scattered checks over workers in memory, and the local runs they must equal."""

import math
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ledger.spool import Spool
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.node import NodeSettings
from mobile_worker.session.identity import Identity
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.scattered import ScatteredExperts
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.check.comparison import Produced, produce
from p2pmoe.check.reference import Reference
from p2pmoe.check.scattered_run import (
    ScatteredCheck,
    ScatteredParts,
    ScatteredRun,
    open_scattered,
)
from p2pmoe.config import DiskPolicy
from p2pmoe.model.model import describe_model
from relay.tokens import Role
from tests.support.backbone_model import (
    local_side,
    manifest_of,
    model_of,
    shards_of,
)
from tests.support.memory_worker import World, split

__all__ = [
    "join_workers",
    "locally_produced",
    "scattered_check",
    "scattered_produced",
]


async def join_workers(
    stack: AsyncExitStack, world: World, path: Path, hands: Iterable[set[ExpertId]]
) -> None:
    """Have one worker for each hand of experts join the world."""
    for hand in hands:
        worker = world.worker(NumpyKernel(), shards_of(path, hand))
        await stack.enter_async_context(worker)


@asynccontextmanager
async def scattered_check(
    world: World, path: Path, profile: Profile, *, side: LocalSide | None = None
) -> AsyncIterator[ScatteredCheck]:
    """Run a backbone without experts as a peer of `world`."""
    identity = Identity.generate()
    settings = NodeSettings(identity=identity, role=Role.BACKBONE)
    with Spool(world.folder / f"backbone-{identity.peer_id.hex()[:8]}") as spool:
        async with world.network.open_node(settings) as node:
            parts = ScatteredParts(
                node=node,
                sign=identity.sign,
                clock=world.clock,
                local=side
                or local_side(
                    path, hot_share=0, policy=DiskPolicy.OFF, profile=profile
                ),
                manifest=world.manifest,
                spool=spool,
            )
            async with open_scattered(parts) as check:
                yield check


def locally_produced(path: Path, reference: Reference, profile: Profile) -> Produced:
    """Return what a single process gives."""
    side = local_side(path, profile=profile)
    experts = ScatteredExperts(side.places(), StepTrace.of(RequestTrace()), math.inf)
    return produce(side.model, experts, reference)


async def scattered_produced(
    folder: Path, path: Path, reference: Reference, profile: Profile
) -> ScatteredRun:
    """Return what two workers in memory give, each holding half of the experts."""
    world = World(manifest_of(path), folder)
    description = describe_model(model_of(path))
    experts = [
        ExpertId(layer, index)
        for layer in description.moe_layers
        for index in range(description.n_expert)
    ]
    async with world.services(), AsyncExitStack() as stack:
        await join_workers(stack, world, path, split(experts, 2))
        async with scattered_check(world, path, profile) as check:
            await check.cover(60, n_workers=2)
            return await check.produce(reference)
