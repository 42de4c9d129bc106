"""The running network side: work is handed over from other threads, in order."""

from pathlib import Path
from types import SimpleNamespace

import trio

from ledger.spool import Spool
from mobile_worker.links.node import NodeSettings
from mobile_worker.session.identity import Identity
from p2pmoe.backbone.attached import attach
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.joining import Joining
from p2pmoe.config import Tuning
from relay.tokens import Role
from tests.support.backbone_model import POCKET, local_side, manifest_of
from tests.support.memory_worker import World
from tests.support.trio_test import trio_test


@trio_test
async def test_threads_hand_over_and_the_side_runs(tmp_path: Path) -> None:
    world = World(manifest_of(POCKET), tmp_path)
    identity = Identity.generate()
    settings = NodeSettings(identity=identity, role=Role.BACKBONE)
    heard: list[object] = []
    with Spool(tmp_path / "spool") as spool:
        async with world.services(), world.network.open_node(settings) as node:
            joining = Joining(
                node=node,
                sign=identity.sign,
                clock=world.clock,
                local=local_side(POCKET, hot_share=0),
                manifest=manifest_of(POCKET),
                spool=spool,
                counters=BackboneCounters(),
                tuning=Tuning(),
                on_coverage=lambda: None,
            )
            async with attach(joining) as attached:
                dispatcher = attached.joined.dispatcher
                both_heard = trio.Event()

                def hear(ticket: object, *, passed: bool) -> None:
                    heard.append(passed)
                    both_heard.set()

                dispatcher.start = heard.append
                dispatcher.checked = hear
                network = attached.network
                work, ticket = SimpleNamespace(), SimpleNamespace()
                await trio.to_thread.run_sync(network.submit, work)
                await trio.to_thread.run_sync(network.report, ticket, True)
                with trio.fail_after(10):
                    await both_heard.wait()
                assert heard == [work, True]
                assert network.fleet is attached.joined.fleet
                while world.market.backbone is None:  # the side tells the market
                    await trio.testing.wait_all_tasks_blocked()
                assert world.market.backbone == identity.peer_id
