"""The one oracle: a scattered run's tokens are those of a single process."""

import os
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.fleet import Status
from p2pmoe.backbone.generation import FailureKind, GenerationFailed
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.config import DiskPolicy, Tuning
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.sampler import SamplingSettings
from tests.support.backbone_model import (
    POCKET,
    generate,
    local_backbone,
    local_side,
    manifest_of,
    model_of,
    scattered_backbone,
    shards_of,
)
from tests.support.memory_worker import MemoryWorker, World, split
from tests.support.shared import shared_path
from tests.support.trio_test import trio_test

PROMPT = tuple(range(5, 25))
SAMPLED = SamplingSettings(temperature=0.8, seed=7)


async def alone(path: Path, n: int, sampling: SamplingSettings | None = None):
    async with local_backbone(local_side(path)) as backbone:
        tokens, _ = await generate(backbone, PROMPT, n, sampling=sampling)
        return tokens


async def join_workers(
    stack: AsyncExitStack, world: World, path: Path, hands: list[set[ExpertId]]
) -> list[MemoryWorker]:
    return [
        await stack.enter_async_context(
            world.worker(NumpyKernel(), shards_of(path, hand), device_class=at % 2)
        )
        for at, hand in enumerate(hands)
    ]


def cold_experts(local: LocalSide) -> set[ExpertId]:
    return set(local.all_experts()) - set(local.hot.resident())


@trio_test
async def test_all_local_equals_the_oracle_with_any_hot_set() -> None:
    full = await alone(POCKET, 8)
    for share in (0.0, 0.4):
        side = local_side(POCKET, hot_share=share)
        async with local_backbone(side) as backbone:
            tokens, run = await generate(backbone, PROMPT, 8)
        assert tokens == full
        assert run.trace.tier_calls().disk > 0
        assert run.trace.tier_calls().ram == 0 if share == 0.0 else True


def test_begin_and_finish_equal_the_models_own_local_experts() -> None:
    side = local_side(POCKET)
    from p2pmoe.backbone.scattered import ScatteredExperts
    from p2pmoe.backbone.trace import RequestTrace, StepTrace

    theirs = LocalExperts.load(model_of(POCKET), side.kernel)
    ours = ScatteredExperts(side.places(), StepTrace.of(RequestTrace()), 1e9)
    caches = [side.model.new_cache(20) for _ in range(2)]
    one = side.model.forward(PROMPT, caches[0], theirs)
    other = side.model.forward(PROMPT, caches[1], ours)
    assert one.tobytes() == other.tobytes()


def test_stand_ins_are_taught_what_absent_experts_add_and_change_nothing() -> None:
    from p2pmoe.backbone.scattered import ScatteredExperts
    from p2pmoe.backbone.speculation.stand_in import StandIns
    from p2pmoe.backbone.trace import RequestTrace, StepTrace

    side = local_side(POCKET, hot_share=0.4)
    description = side.model.description
    stand_ins = StandIns(description.n_expert, description.n_embd)
    logits = []
    for own in (None, stand_ins):
        trace = StepTrace.of(RequestTrace())
        caller = ScatteredExperts(side.places(), trace, 1e9, stand_ins=own)
        cache = side.model.new_cache(200)
        logits.append(side.model.forward(PROMPT * 10, cache, caller).tobytes())
    assert logits[0] == logits[1]
    assert stand_ins.layer(description.moe_layers[-1]) is not None


@pytest.mark.parametrize("disk", [DiskPolicy.OFF, DiskPolicy.FALLBACK])
@trio_test
async def test_pocket_scattered_over_three_workers(
    tmp_path: Path, disk: DiskPolicy
) -> None:
    expected = await alone(POCKET, 24, SAMPLED)
    side = local_side(POCKET, hot_share=0.33, policy=disk)
    world = World(manifest_of(POCKET), tmp_path)
    async with world.services(), AsyncExitStack() as stack:
        away = cold_experts(side)
        await join_workers(stack, world, POCKET, split(away, 3))
        async with scattered_backbone(world, side) as backbone:
            await backbone.covers(away)
            tokens, run = await generate(backbone, PROMPT, 24, sampling=SAMPLED)
            assert tokens == expected
            calls = run.trace.tier_calls()
            assert calls.hub > 0
            assert calls.edge > 0
            assert calls.hub + calls.edge >= 0.3 * (calls.ram + calls.hub + calls.edge)
            if disk is DiskPolicy.OFF:
                assert calls.disk == 0
            assert 0 < run.trace.decode_trips <= 7 * 23
            assert run.trace.prefill_trips <= 7
            with trio.fail_after(10):
                assert await backbone.joined.side.drain(8)
            totals = backbone.joined.settlement.totals()
            assert totals.accepted == calls.hub + calls.edge
            assert totals.receipted == totals.accepted == world.ledger.n_receipts
            assert world.market.demands


@trio_test
async def test_tiny_minimax_m3_scattered_in_r32(tmp_path: Path) -> None:
    path = shared_path("models/tiny/minimax_m3/model-f32.gguf")
    prompt = tuple(range(3, 15))
    side = local_side(path, profile=Profile.R32)
    async with local_backbone(side) as backbone:
        expected, _ = await generate(backbone, prompt, 12)
    away_side = local_side(path, hot_share=0.25, profile=Profile.R32)
    world = World(manifest_of(path), tmp_path)
    async with world.services(), AsyncExitStack() as stack:
        away = cold_experts(away_side)
        await join_workers(stack, world, path, split(away, 2))
        async with scattered_backbone(world, away_side) as backbone:
            await backbone.covers(away)
            tokens, run = await generate(backbone, prompt, 12)
    assert tokens == expected
    assert run.trace.tier_calls().edge > 0


@trio_test
async def test_b11_a_worker_lost_in_mid_layer_changes_no_token(tmp_path: Path) -> None:
    expected = await alone(POCKET, 24)
    side = local_side(POCKET, hot_share=0.3, policy=DiskPolicy.OFF)
    world = World(manifest_of(POCKET), tmp_path)
    async with world.services(), AsyncExitStack() as stack:
        away = cold_experts(side)
        (last,) = await join_workers(stack, world, POCKET, [away])
        lost = await join_workers(stack, world, POCKET, [away, away])
        async with scattered_backbone(world, side) as backbone:
            me = backbone.joined.settlement.terms.backbone
            await backbone.covers(away)
            worker = backbone.joined.fleet.workers[last.identity.peer_id]
            worker.cost.in_flight_rows = 10**12  # the last choice in any case

            def cut(n_tokens: int) -> None:
                for worker in lost:
                    # Silent, like a pulled cable; before what they have served unpaid
                    # is so much that only the last choice would be asked.
                    if n_tokens == 2:
                        world.network.cut(worker.identity.peer_id, me)
                    if n_tokens == 12:
                        world.network.disconnect(worker.identity.peer_id)

            tokens, run = await generate(backbone, PROMPT, 24, on_token=cut)
            assert tokens == expected
            assert run.trace.failovers > 0
            fleet = backbone.joined.fleet.workers
            for worker in lost:
                assert fleet[worker.identity.peer_id].status is not Status.LIVE


@trio_test
async def test_b34_a_lying_worker_is_caught_dropped_and_changes_no_token(
    tmp_path: Path,
) -> None:
    expected = await alone(POCKET, 16)
    side = local_side(POCKET, hot_share=0.3)
    world = World(manifest_of(POCKET), tmp_path)
    async with world.services(), AsyncExitStack() as stack:
        away = cold_experts(side)
        shards = {
            expert: bytes(len(shard))
            for expert, shard in shards_of(POCKET, away).items()
        }
        liar = await stack.enter_async_context(world.worker(NumpyKernel(), shards))
        tuning = Tuning(newcomer_spot_check_rate=1.0)
        async with scattered_backbone(world, side, tuning=tuning) as backbone:
            await backbone.covers(away)
            tokens, _ = await generate(backbone, PROMPT, 16)
            assert tokens == expected
            worker = backbone.joined.fleet.workers[liar.identity.peer_id]
            assert worker.status is Status.DROPPED
            assert backbone.counters.spot_checks["failed"] == 1
            assert backbone.joined.settlement.totals().accepted == 0


@trio_test
async def test_a_ledger_that_is_down_stops_nothing_but_filing(tmp_path: Path) -> None:
    side = local_side(POCKET, hot_share=0.3)
    world = World(manifest_of(POCKET), tmp_path)
    world.ledger.float_leaves = 4096
    async with world.services(), AsyncExitStack() as stack:
        away = cold_experts(side)
        await join_workers(stack, world, POCKET, [away])
        async with scattered_backbone(world, side) as backbone:
            await backbone.covers(away)
            world.ledger.is_down = True
            _, run = await generate(backbone, PROMPT, 8)
            assert run.trace.tier_calls().hub > 0
            assert not await backbone.joined.side.drain(1.5)
            world.ledger.is_down = False
            assert await backbone.joined.side.drain(8)
            totals = backbone.joined.settlement.totals()
            assert world.ledger.n_receipts == totals.accepted == totals.receipted


def cut_short(folder: Path) -> tuple[LocalSide, Callable[[], None]]:
    """Return a side on a copy of the model, and what cuts the copy's experts off."""
    copy = folder / "copy.gguf"
    shutil.copyfile(POCKET, copy)
    side = local_side(copy, hot_share=0.3)
    return side, lambda: os.truncate(copy, 4096)


@trio_test
async def test_b03_lost_shards_are_computed_by_their_holders(tmp_path: Path) -> None:
    expected = await alone(POCKET, 16)
    side, cut = cut_short(tmp_path)
    world = World(manifest_of(POCKET), tmp_path)
    async with world.services(), AsyncExitStack() as stack:
        away = sorted(cold_experts(side))
        await join_workers(stack, world, POCKET, [set(away[1::2])])
        async with scattered_backbone(world, side) as backbone:
            await backbone.covers(set(away[1::2]))

            answers = []

            answered = trio.Event()

            async def ask() -> None:
                answers.append(await generate(backbone, PROMPT, 16))
                answered.set()

            cut()
            async with trio.open_nursery() as nursery, AsyncExitStack() as late:
                nursery.start_soon(ask)
                await trio.sleep(0.3)
                assert not answers  # it waits for a holder
                await join_workers(late, world, POCKET, [set(away[::2])])
                await answered.wait()
            ((tokens, run),) = answers
            assert tokens == expected
            assert run.trace.tier_calls().disk == 0
            checks = backbone.counters.spot_checks
            assert checks["passed"] == checks["failed"] == 0
            assert checks["skipped"] > 0
            assert side.disk.lost


@trio_test
async def test_b03_a_lost_shard_without_a_worker_ends_the_request_clearly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    side, cut = cut_short(tmp_path)
    async with local_backbone(side) as backbone:
        cut()
        for _ in range(2):
            with pytest.raises(GenerationFailed, match="has lost expert") as failed:
                await generate(backbone, PROMPT, 4)
            assert failed.value.kind is FailureKind.UPSTREAM_LOST
    lost = [line for line in caplog.messages if line.startswith("shard lost")]
    assert len(lost) == len(side.disk.lost) > 0
    assert "copy.gguf" in lost[0]
