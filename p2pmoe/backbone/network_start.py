"""Joins a service to its network: spool, node, network side, in this order.

In a module of its own so that a service without a network loads none of it.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ledger.spool import Spool
from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST
from mobile_worker.clock import Clock
from mobile_worker.links import NodeSettings, open_node
from mobile_worker.session.identity import Identity
from mobile_worker.shards.manifest import Manifest
from p2pmoe.backbone.attached import Attached, attach
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.joining import Joining
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.config import NetworkAccess, ServeConfig
from relay.tokens import Role

__all__ = ["NetworkStart", "start_network"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkStart:
    """Who joins which network, with what; `on_coverage` hears of changed coverage."""

    config: ServeConfig
    access: NetworkAccess
    identity: Identity
    clock: Clock
    local: LocalSide
    manifest: Manifest
    counters: BackboneCounters
    on_coverage: Callable[[], None]


@asynccontextmanager
async def start_network(start: NetworkStart) -> AsyncIterator[Attached]:
    """Join the network and keep its side running; raises as `attach`."""
    access, config = start.access, start.config
    settings = NodeSettings(
        identity=start.identity,
        role=Role.BACKBONE,
        endpoints=(access.endpoint, *access.further),
        token=access.token,
        self_test=SELF_TEST_DIGEST,
        network=access.network,
        lan=access.lan,
    )
    with Spool(config.data / "spool") as spool:
        async with open_node(settings, clock=start.clock) as node:
            joining = Joining(
                node=node,
                sign=start.identity.sign,
                clock=start.clock,
                local=start.local,
                manifest=start.manifest,
                spool=spool,
                counters=start.counters,
                tuning=config.tuning,
                on_coverage=start.on_coverage,
                disputes=config.data / "disputes",
                last_placement=config.data / "last-placement",
            )
            async with attach(joining) as attached:
                yield attached
