"""A scattered run over workers in memory: the bytes of a local one."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from p2pmoe.check import scattered_run
from p2pmoe.check.scattered_run import ScatteredCheck
from p2pmoe.config import DiskPolicy
from p2pmoe.errors import ConfigurationError, ExpertsUnavailable
from tests.support.backbone_model import local_side, manifest_of
from tests.support.memory_worker import World, split
from tests.support.mini_m3 import write_mini_m3
from tests.support.references import made_up_reference
from tests.support.scattered_checks import (
    join_workers,
    locally_produced,
    scattered_check,
)
from tests.support.trio_test import trio_test

EXPERTS = {ExpertId(1, index) for index in range(4)}


@asynccontextmanager
async def mini_world(
    tmp_path: Path, hands: list[set[ExpertId]], profile: Profile = Profile.R32
) -> AsyncIterator[tuple[Path, World, ScatteredCheck]]:
    path = write_mini_m3(tmp_path / "mini.gguf")
    world = World(manifest_of(path), tmp_path)
    async with world.services(), AsyncExitStack() as stack:
        await join_workers(stack, world, path, hands)
        check = await stack.enter_async_context(scattered_check(world, path, profile))
        yield path, world, check


@pytest.mark.parametrize("profile", Profile)
@trio_test
async def test_bytes_are_those_of_a_local_run(tmp_path, profile):
    hands = split(EXPERTS, 2)
    async with mini_world(tmp_path, hands, profile) as (path, world, check):
        reference = made_up_reference(n_prompt=9, n_greedy=5)
        shares: list[float] = []
        await check.cover(10, shares.append, n_workers=2)
        run = await check.produce(reference)
        assert check.missing() == frozenset()
    alone = locally_produced(path, reference, profile)
    assert run.produced.logits.tobytes() == alone.logits.tobytes()
    assert run.produced.greedy == alone.greedy
    assert run.n_calls_here == run.n_failovers == 0
    peers = {worker.identity.peer_id for worker in world.workers}
    assert len(run.calls) == 2
    assert all(n > 0 for n in run.calls.values()), run.calls
    assert peers <= set(run.calls)
    assert sum(run.calls.values()) >= 2 * 4 + 2


@trio_test
async def test_an_expert_that_two_hold_is_dealt_out_to_both(tmp_path):
    async with mini_world(tmp_path, [EXPERTS, EXPERTS]) as (_, _, check):
        await check.cover(10, n_workers=2)
        run = await check.produce(made_up_reference(n_prompt=30, n_greedy=1))
    assert all(n > 0 for n in run.calls.values()), run.calls


@trio_test
async def test_a_lost_worker_fails_over_to_the_other(tmp_path):
    reference = made_up_reference(n_prompt=4, n_greedy=12)
    leaving, token = trio.Event(), trio.lowlevel.current_trio_token()

    async def passer_by(
        path: Path, world: World, *, task_status: trio.TaskStatus[None]
    ) -> None:
        async with AsyncExitStack() as stack:
            await join_workers(stack, world, path, [EXPERTS])
            task_status.started()
            await leaving.wait()

    def tell(share: float) -> None:
        if share > 0.4:
            token.run_sync_soon(leaving.set)

    async with mini_world(tmp_path, [EXPERTS]) as (path, world, check):
        async with trio.open_nursery() as nursery:
            await nursery.start(passer_by, path, world)
            await check.cover(10, n_workers=2)
            run = await check.produce(reference, tell)
    alone = locally_produced(path, reference, Profile.R32)
    assert run.produced.greedy == alone.greedy
    assert run.n_calls_here == 0


@trio_test
async def test_experts_without_a_worker_are_told(tmp_path):
    async with mini_world(tmp_path, [EXPERTS - {ExpertId(1, 3)}]) as (_, _, check):
        with pytest.raises(ExpertsUnavailable, match="1 of 4 experts have no worker"):
            await check.cover(0.1)
        assert check.missing() == {ExpertId(1, 3)}


@trio_test
async def test_who_leaves_early_ends_the_thread(tmp_path):
    async with mini_world(tmp_path, [EXPERTS]) as (_, _, check):
        await check.cover(10)
        with trio.move_on_after(30) as scope:
            token = trio.lowlevel.current_trio_token()

            def leave(_share: float) -> None:
                token.run_sync_soon(scope.cancel)

            reference = made_up_reference(n_prompt=4, n_greedy=100)
            await check.produce(reference, leave)
        assert scope.cancelled_caught
        assert trio.current_time() < scope.deadline


@trio_test
async def test_nobody_answering_fails_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(scattered_run, "LAYER_WITHIN_S", 0.05)
    async with mini_world(tmp_path, []) as (_, _, check):
        with pytest.RaisesGroup(ExpertsUnavailable, flatten_subgroups=True):
            await check.produce(made_up_reference())


@trio_test
async def test_a_backbone_with_experts_is_refused(tmp_path):
    path = write_mini_m3(tmp_path / "mini.gguf")
    world = World(manifest_of(path), tmp_path)
    for side in (
        local_side(path, policy=DiskPolicy.OFF),
        local_side(path, hot_share=0, policy=DiskPolicy.FALLBACK),
    ):
        refused = pytest.RaisesExc(ConfigurationError, match="without experts")
        with pytest.RaisesGroup(refused, flatten_subgroups=True):
            async with scattered_check(world, path, Profile.R32, side=side):
                pass


def test_no_answer_is_checked_here():
    tuning = scattered_run.NO_SPOT_CHECKS
    assert tuning.spot_check_rate == tuning.newcomer_spot_check_rate == 0.0
    assert tuning.first_passes == 0
