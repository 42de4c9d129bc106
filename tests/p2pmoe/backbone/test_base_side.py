"""The local side without experts: what is here, what is kept, what is told."""

from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest
import trio

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.backbone.base_model import open_by_manifest
from p2pmoe.backbone.base_side import BaseSide
from p2pmoe.backbone.fetched_experts import ExpertFetcher
from p2pmoe.backbone.fleet import Status
from p2pmoe.backbone.local_side import LocalOptions
from p2pmoe.backbone.path_times import Path as By
from p2pmoe.config import DiskAccess, DiskPolicy, Tuning
from tests.support.backbone_model import (
    POCKET,
    generate,
    local_backbone,
    local_side,
    scattered_backbone,
    shards_of,
)
from tests.support.base_models import FAST, MANIFEST_URL, PublicModel, public_model
from tests.support.memory_worker import World
from tests.support.trio_test import trio_test

RAM = 60 << 20


@pytest.fixture(scope="module")
def whole() -> PublicModel:
    return public_model(POCKET, with_tokenizer=False)


@pytest.fixture
def model(whole: PublicModel) -> PublicModel:
    return whole.changed()


def side_of(model: PublicModel, folder: Path, **changes: object) -> BaseSide:
    client = model.server.open_client
    base = open_by_manifest(
        MANIFEST_URL, folder / "base", settings=FAST, open_client=client
    )
    model.server.asked.clear()
    options = LocalOptions(data=folder, policy=DiskPolicy.OFF, **changes)
    fetcher = ExpertFetcher(model.manifest, FAST, open_client=client)
    return BaseSide(base.model_file, options, fetcher)


def use_some(side: BaseSide) -> None:
    """Use experts 0 to 3 of layer 1 much, and some others a little."""
    chosen = np.array([[0, 1, 2, 3]] * 4000 + [[4, 5, 6, 7]])
    side.use.add(1, chosen)


def test_without_ram_no_expert_is_ever_fetched(
    tmp_path: Path, model: PublicModel
) -> None:
    side = side_of(model, tmp_path, disk_access=DiskAccess.MMAP)
    side.warm_up([1, 2, 3], in_network=True)
    use_some(side)
    side.fill()
    assert not side.rebalance()
    assert side.look_through()
    assert side.hot.at_hand() == ()
    assert not side.hot.holds_all
    assert model.server.asked == []
    assert not side.model_file.unread()
    assert len(side.all_experts()) == 224


def test_with_ram_the_most_used_are_fetched_and_kept(
    tmp_path: Path, model: PublicModel
) -> None:
    side = side_of(model, tmp_path, ram_bytes=RAM)
    side.warm_up([], in_network=True)
    assert side.hot.at_hand() == ()
    assert not side.knows_use
    side.hot.budget_bytes = 4 * max(side.hot.sizes.values())
    use_some(side)
    side.fill_behind(lambda: True)
    assert [(e.layer, e.index) for e in side.hot.at_hand()] == [
        (1, index) for index in range(4)
    ]
    n_bytes = sum(side.hot.sizes[expert] for expert in side.hot.at_hand())
    assert model.server.n_bytes == n_bytes == side.experts.count.n_bytes
    assert side.cost.times.mean_s(By.FETCH) is not None


def test_a_fetch_that_fails_is_told_and_tried_again(
    tmp_path: Path, model: PublicModel, caplog: pytest.LogCaptureFixture
) -> None:
    side = side_of(model, tmp_path, ram_bytes=RAM)
    side.warm_up([], in_network=True)
    side.hot.budget_bytes = max(side.hot.sizes.values())
    use_some(side)
    model.server.is_up = False
    assert side.knows_use
    side.fill_behind(lambda: True)
    assert not side.rebalance()
    assert "cannot be fetched" in caplog.text
    model.server.is_up = True
    assert side.rebalance()
    assert len(side.hot.at_hand()) == 1
    assert side.damage() == ""


def test_use_is_recalled(tmp_path: Path, model: PublicModel) -> None:
    side = side_of(model, tmp_path, ram_bytes=RAM)
    use_some(side)
    side.save()
    again = side_of(model, tmp_path, ram_bytes=RAM)
    assert not again.knows_use
    again.warm_up([], in_network=True)
    assert again.knows_use


@trio_test
async def test_b34_a_lying_worker_is_caught_without_a_disk(
    tmp_path: Path, model: PublicModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All the time that a slow machine may need.
    monkeypatch.setattr("p2pmoe.backbone.fetched_tier._MOST_SAVED_S", 1e9)
    prompt = tuple(range(5, 25))
    async with local_backbone(local_side(POCKET)) as backbone:
        expected, _ = await generate(backbone, prompt, 12)
    side = await trio.to_thread.run_sync(side_of, model, tmp_path)
    await trio.to_thread.run_sync(side.warm_up, [])
    world = World(model.manifest, tmp_path)
    everything = set(side.all_experts())
    right = shards_of(POCKET, everything)
    wrong = {expert: bytes(len(shard)) for expert, shard in right.items()}
    async with world.services(), AsyncExitStack() as stack:
        enter = stack.enter_async_context
        liar = await enter(world.worker(NumpyKernel(), wrong))
        await enter(world.worker(NumpyKernel(), right))
        tuning = Tuning(newcomer_spot_check_rate=1.0)
        async with scattered_backbone(world, side, tuning=tuning) as backbone:
            await backbone.covers(everything)
            tokens, _ = await generate(backbone, prompt, 12)
            worker = backbone.joined.fleet.workers[liar.identity.peer_id]
            assert worker.status is Status.DROPPED
            assert tokens == expected
            assert backbone.counters.spot_checks["failed"] == 1
            assert backbone.counters.spot_checks["passed"] > 0
            assert side.hot.at_hand() == ()
