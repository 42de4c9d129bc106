"""Prefetch changes no token: real drafts, weights from workers, honest and hostile.

Workers of the same process hold every expert that is not in memory here. Before each
pass the lane fetches what the drafts foresee (trips are taken to be long, so that it
always pays); tokens are those of plain decoding in every case, whatever workers send in
place of weights.
"""

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mobile_worker import messages
from mobile_worker.messages.blobs import BlobError
from p2pmoe.backbone.prefetch import prefetch as prefetch_module
from p2pmoe.backbone.prefetch.choice import Choice, ChoiceQuestion, choose
from p2pmoe.backbone.prefetch.fetch_work import Lack
from p2pmoe.backbone.prefetch.prefetch import Prefetch
from p2pmoe.backbone.speculation.drafts import DraftSource
from p2pmoe.backbone.speculation.rounds import RoundPlan
from p2pmoe.backbone.speculation.self_draft import SelfDraft
from p2pmoe.backbone.speculation.speculation import Speculation
from p2pmoe.config import DiskPolicy
from p2pmoe.model.sampler import SamplingSettings
from tests.integration.test_batch_invariance import text_ids
from tests.support.backbone_model import (
    POCKET,
    Backbone,
    generate,
    local_backbone,
    local_side,
    manifest_of,
    scattered_backbone,
    shards_of,
)
from tests.support.drafters import FixedChooser
from tests.support.kernels import fastest_kernel
from tests.support.memory_worker import MemoryWorker, World
from tests.support.trio_test import trio_test

Blob = messages.Blob
Spoil = Callable[[Blob], Blob | None]
N_TOKENS, N_DRAFTS, TRIP_S = 14, 6, 10.0
SAMPLED = SamplingSettings(temperature=0.8, seed=3)


@dataclass(frozen=True)
class Stage:
    backbone: Backbone
    workers: list[MemoryWorker]
    prefetch: Prefetch
    plain: dict[bool, list[int]]

    def spoil(self, spoil: Spoil) -> None:
        for worker in self.workers:
            worker.spoil = spoil


@functools.cache
def prompt() -> tuple[int, ...]:
    return tuple(text_ids()[100:130])


@pytest.fixture(autouse=True)
def _it_pays_and_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose_far(question: ChoiceQuestion) -> Choice:
        layers = [replace(wish, trip_s=TRIP_S) for wish in question.layers]
        return choose(replace(question, layers=layers))

    monkeypatch.setattr(prefetch_module, "choose", choose_far)


@pytest.fixture(scope="module")
def plain() -> dict[bool, list[int]]:
    """What plain decoding says, greedy and sampled."""
    found: dict[bool, list[int]] = {}

    @trio_test
    async def run() -> None:
        async with local_backbone(local_side(POCKET)) as backbone:
            for is_sampled in (False, True):
                sampling = SAMPLED if is_sampled else None
                found[is_sampled], _ = await generate(
                    backbone, prompt(), N_TOKENS, sampling=sampling
                )

    run()
    return found


@asynccontextmanager
async def staged(folder: Path, plain: dict[bool, list[int]]) -> AsyncIterator[Stage]:
    world = World(manifest_of(POCKET), folder)
    side = local_side(
        POCKET, hot_share=0.5, policy=DiskPolicy.OFF, prefetches=True, n_lanes=1
    )
    cold = set(side.all_experts()) - set(side.hot.resident())
    plan = RoundPlan(source=DraftSource.SELF, n_drafts=N_DRAFTS, prefetch=True)

    def make() -> Speculation:
        drafter = SelfDraft(side.model, side.hot.layer, kernel=side.kernel)
        return Speculation(
            drafters=(drafter,), chooser=FixedChooser(plan), prefetch=side.prefetch
        )

    async with world.services(), AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(
                world.worker(fastest_kernel(), shards_of(POCKET, hand))
            )
            for hand in (cold, cold)
        ]
        backbone = await stack.enter_async_context(
            scattered_backbone(world, side, n_lanes=1, speculation=make)
        )
        await backbone.covers(cold)
        assert side.prefetch is not None
        yield Stage(backbone, workers, side.prefetch, plain)


async def check(stage: Stage, *, is_sampled: bool = False) -> None:
    """Generate, and compare with plain decoding."""
    sampling = SAMPLED if is_sampled else None
    tokens, _ = await generate(stage.backbone, prompt(), N_TOKENS, sampling=sampling)
    assert tokens == stage.plain[is_sampled]


@trio_test
async def test_fetched_weights_are_computed_with_and_change_no_token(
    tmp_path: Path, plain: dict[bool, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch_module, "_LEAST_PATIENCE_S", 60.0)
    monkeypatch.setattr(prefetch_module, "_MOST_PATIENCE_S", 60.0)
    async with staged(tmp_path, plain) as stage:
        await check(stage)  # links are measured
        for is_sampled in (False, True):
            await check(stage, is_sampled=is_sampled)
        figures = stage.prefetch.figures
        assert figures.n_fetches > 0
        assert figures.n_hits > 4 * figures.n_misses
        assert not any(figures.lacks.values())
        assert figures.n_bytes > 0
        assert all(worker.n_gets for worker in stage.workers)


def other_bytes(blob: Blob) -> Blob:
    return replace(blob, body=bytes(len(blob.body)))


def another_size(blob: Blob) -> Blob:
    return replace(blob, total=blob.total + 1)


def endless(blob: Blob) -> Blob:
    return replace(blob, body=blob.body * 3)


def another_place(blob: Blob) -> Blob:
    return replace(blob, offset=blob.offset + 1)


def refusal(blob: Blob) -> Blob:
    return replace(blob, error=BlobError.UNKNOWN, body=b"")


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(other_bytes, id="other bytes"),
        pytest.param(lambda blob: None, id="silence"),
        pytest.param(another_size, id="another size", marks=pytest.mark.slow),
        pytest.param(endless, id="endless", marks=pytest.mark.slow),
        pytest.param(another_place, id="another place", marks=pytest.mark.slow),
        pytest.param(refusal, id="refusal", marks=pytest.mark.slow),
    ],
)
@trio_test
async def test_whatever_workers_send_tokens_are_the_same(
    tmp_path: Path, plain: dict[bool, list[int]], spoil: Spoil
) -> None:
    async with staged(tmp_path, plain) as stage:
        stage.spoil(spoil)
        await check(stage)
        assert stage.prefetch.figures.n_hits == 0


@pytest.mark.parametrize(
    "spoil", [other_bytes, lambda blob: None], ids=["other bytes", "silence"]
)
@trio_test
async def test_workers_that_turn_hostile_between_passes(
    tmp_path: Path, plain: dict[bool, list[int]], spoil: Spoil
) -> None:
    async with staged(tmp_path, plain) as stage:
        await check(stage)
        stage.spoil(spoil)
        await check(stage)
        lacks = stage.prefetch.figures.lacks
        assert lacks[Lack.WRONG] + lacks[Lack.LATE] > 0


@trio_test
async def test_a_worker_that_goes_while_weights_are_fetched(
    tmp_path: Path, plain: dict[bool, list[int]]
) -> None:
    async with staged(tmp_path, plain) as stage:
        await check(stage)
        gone = stage.workers[0]
        gone.spoil = lambda blob: gone.world.network.disconnect(gone.identity.peer_id)
        await check(stage)
