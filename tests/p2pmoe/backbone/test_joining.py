"""A network without market or ledger is refused with a clear line."""

from pathlib import Path

import pytest

from mobile_worker.links.memory import MemoryNetwork
from p2pmoe.errors import ConfigurationError
from tests.support.backbone_model import (
    POCKET,
    local_side,
    manifest_of,
    scattered_backbone,
)
from tests.support.memory_worker import World
from tests.support.trio_test import trio_test


@trio_test
async def test_services_must_be_named(tmp_path: Path) -> None:
    world = World(manifest_of(POCKET), tmp_path)
    world.network = MemoryNetwork()
    with pytest.RaisesGroup(
        pytest.RaisesExc(ConfigurationError, match="no market or no ledger"),
        allow_unwrapped=True,
        flatten_subgroups=True,
    ):
        async with scattered_backbone(world, local_side(POCKET)):
            pass


@trio_test
async def test_the_parts_know_each_other(tmp_path: Path) -> None:
    world = World(manifest_of(POCKET), tmp_path)
    async with (
        world.services(),
        scattered_backbone(world, local_side(POCKET)) as backbone,
    ):
        joined = backbone.joined
        assert joined.dispatcher.on_sooner == joined.side.wake
        assert joined.settlement.terms.manifest_hash == world.digest
        assert joined.settlement.terms.network == world.network_id
