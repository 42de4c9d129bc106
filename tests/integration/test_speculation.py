"""Speculation changes no token: real drafters, the demo's model, three placements.

The experts are all in memory, or the colder half of them on the disk, or with workers.
Half of the requests is greedy, half is sampled; several share the steps, and some are
preempted in between. All must say what plain decoding says.
"""

import functools
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import trio

from p2pmoe.backbone.engine import EngineRun
from p2pmoe.backbone.generation import GenerationRequest
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.scattered import ScatteredExperts
from p2pmoe.backbone.speculation.drafts import Drafter, DraftSource
from p2pmoe.backbone.speculation.ngram import NgramDraft
from p2pmoe.backbone.speculation.rounds import RoundPlan
from p2pmoe.backbone.speculation.self_draft import SelfDraft
from p2pmoe.backbone.speculation.speculation import Speculation, SpeculationMaker
from p2pmoe.backbone.speculation.stand_in import StandIns
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.config import DiskPolicy
from p2pmoe.model.sampler import SamplingSettings, log_probabilities
from tests.integration.test_batch_invariance import text_ids
from tests.support.backbone_model import (
    POCKET,
    Backbone,
    local_side,
    manifest_of,
    scattered_backbone,
    shards_of,
)
from tests.support.drafters import FixedChooser
from tests.support.kernels import fastest_kernel
from tests.support.lanes import LaneRig, a_request, limits_of
from tests.support.memory_worker import World, split
from tests.support.trio_test import trio_test

GREEDY = SamplingSettings(temperature=0.0)


def requests_of(n: int, n_tokens: int) -> list[GenerationRequest]:
    """Return requests with prompts of held-out text, every second one sampled."""
    ids, found = text_ids(), []
    for i in range(n):
        first, length = 977 * i % (len(ids) - 64), 4 + 7 * i % 29
        sampling = GREEDY
        if i % 2:
            sampling = SamplingSettings(temperature=0.8, top_p=0.95, seed=i)
        found.append(
            a_request(
                ids[first : first + length], n_tokens, sampling=sampling, client=str(i)
            )
        )
    return found


def maker(
    side: LocalSide,
    source: DraftSource,
    n: int,
    made: list[Speculation],
    stand_ins: StandIns | None = None,
) -> SpeculationMaker:
    """Return what makes lanes draft `n` tokens in each round."""

    def make() -> Speculation:
        drafter: Drafter = NgramDraft()
        if source is DraftSource.SELF:
            kernel = side.places().kernel
            drafter = SelfDraft(
                side.model, side.hot.layer, kernel=kernel, stand_ins=stand_ins
            )
        plan = RoundPlan(source=source, n_drafts=n)
        made.append(Speculation(drafters=(drafter,), chooser=FixedChooser(plan)))
        return made[-1]

    return make


def run_all(
    side: LocalSide,
    requests: Sequence[GenerationRequest],
    speculation: SpeculationMaker | None = None,
    *,
    preempts: bool = False,
    stand_ins: StandIns | None = None,
) -> list[list[int]]:
    """Run requests together in one lane; with `preempts` some lose their slots."""
    description = side.model.description
    rig = LaneRig(
        side.model,
        limits_of(n_context=512, token_bytes=description.kv_bytes_per_token),
        clock=time.monotonic,
        now=time.monotonic(),
        deadline_s=math.inf,
        caller=functools.partial(ScatteredExperts, side.places(), stand_ins=stand_ins),
        speculation=speculation,
    )
    sequences, luck = [], random.Random(8)
    waiting = list(requests)
    while waiting or rig.schedule.n_running or len(rig.schedule.queue):
        while waiting and len(rig.schedule.queue) < 16:
            sequences.append(rig.submit(waiting.pop(0)))
        running = rig.schedule.lanes[0]
        if preempts and running and luck.random() < 0.2:
            luck.choice(running).gives_way = True
        rig.step()
    assert (rig.schedule.n_preemptions > 0) == preempts
    return [rig.tokens(sequence) for sequence in sequences]


def drafted(made: Sequence[Speculation]) -> int:
    return sum(sum(own.counts.n_drafted.values()) for own in made)


def check_in_one_process(
    requests: Sequence[GenerationRequest], *ways: tuple[DraftSource, int, bool, bool]
) -> None:
    """Try ways to draft: who, how many, with half of the experts, with preemption."""
    whole = local_side(POCKET)
    half = local_side(POCKET, hot_share=0.5)
    plain = run_all(whole, requests)
    for source, n, is_half, preempts in ways:
        side = half if is_half else whole
        made: list[Speculation] = []
        d = side.model.description
        stand_ins = StandIns.within(
            d.n_expert, d.n_embd, len(d.moe_layers), (8 << 20) * is_half
        )
        speculation = maker(side, source, n, made, stand_ins)
        assert plain == run_all(
            side, requests, speculation, preempts=preempts, stand_ins=stand_ins
        )
        assert drafted(made) > 0


def test_drafts_change_no_token_in_one_process() -> None:
    check_in_one_process(
        requests_of(6, 12),
        (DraftSource.SELF, 4, True, False),
        (DraftSource.SELF, 8, True, True),
        (DraftSource.SELF, 3, False, False),
        (DraftSource.NGRAM, 8, False, True),
    )


@pytest.mark.slow
def test_drafts_change_no_token_in_one_process_for_200_prompts() -> None:
    check_in_one_process(
        requests_of(200, 8),
        (DraftSource.SELF, 6, True, True),
        (DraftSource.NGRAM, 8, False, True),
    )


def test_drafting_with_all_experts_is_always_right() -> None:
    """The model that drafts is then the one that verifies, sampled or not."""
    side = local_side(POCKET)
    made: list[Speculation] = []
    run_all(side, requests_of(4, 16), maker(side, DraftSource.SELF, 4, made))
    counts = made[0].counts
    assert counts.n_drafted == counts.n_accepted
    assert counts.n_drafted[DraftSource.SELF] > 40


# With the colder half at workers.


@asynccontextmanager
async def halves(
    folder: Path, made: list[Speculation], n: int
) -> AsyncIterator[tuple[Backbone, LocalSide]]:
    """Run a backbone without disk that has half of the experts, workers the others."""
    side = local_side(POCKET, hot_share=0.5, policy=DiskPolicy.OFF)
    cold = set(side.hot.sizes) - set(side.hot.resident())
    world = World(manifest_of(POCKET), folder)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(world.services())
        for part in split(cold, 2):
            worker = world.worker(fastest_kernel(), shards_of(POCKET, set(part)))
            await stack.enter_async_context(worker)
        speculation = maker(side, DraftSource.SELF, n, made) if n else None
        backbone = await stack.enter_async_context(
            scattered_backbone(world, side, speculation=speculation, n_lanes=1)
        )
        await backbone.covers(cold)
        yield backbone, side


async def run_on(
    backbone: Backbone, requests: Sequence[GenerationRequest]
) -> tuple[list[list[int]], list[EngineRun]]:
    """Run requests at once; their tokens and their figures."""
    found: dict[int, tuple[list[int], EngineRun]] = {}
    at_once = trio.CapacityLimiter(24)

    async def one(place: int, request: GenerationRequest) -> None:
        tokens: list[int] = []
        async with at_once, backbone.engine.generate(request) as run:
            async for step in run:
                tokens += step.tokens
        found[place] = tokens, run

    async with trio.open_nursery() as nursery:
        for place, request in enumerate(requests):
            nursery.start_soon(one, place, request)
    ordered = [found[place] for place in range(len(requests))]
    return [tokens for tokens, _ in ordered], [run for _, run in ordered]


async def check_with_workers(
    folder: Path, requests: Sequence[GenerationRequest]
) -> None:
    plain = run_all(local_side(POCKET), requests)
    trips = []
    for n in (0, 8):
        made: list[Speculation] = []
        (folder / str(n)).mkdir()
        async with halves(folder / str(n), made, n) as (backbone, _):
            tokens, runs = await run_on(backbone, requests)
            totals = backbone.engine.lanes[0].totals
        assert tokens == plain
        usages = [run.end().usage for run in runs]
        assert [usage.completion_tokens for usage in usages] == list(map(len, tokens))
        assert (sum(usage.drafted_tokens for usage in usages) > 0) == (n > 0)
        trips.append(totals.n_trips / totals.n_committed)
    assert trips[1] < 0.75 * trips[0]


@trio_test
async def test_drafts_change_no_token_with_workers(tmp_path: Path) -> None:
    await check_with_workers(tmp_path, requests_of(3, 16))


@pytest.mark.slow
@trio_test
async def test_drafts_change_no_token_with_workers_for_200_prompts(
    tmp_path: Path,
) -> None:
    await check_with_workers(tmp_path, requests_of(200, 8))


# In distribution.

N_SEEDS, TOP_K = 1000, 3


def chances(side: LocalSide, tokens: list[int], temperature: float) -> dict[int, float]:
    """Return the model's own distribution of what follows, of its likeliest tokens."""
    experts = ScatteredExperts(side.places(), StepTrace.of(RequestTrace()), math.inf)
    cache = side.model.new_cache(len(tokens))
    (logits,) = side.model.forward(tokens, cache, experts)
    scores = log_probabilities(logits)
    best = np.argsort(-scores, kind="stable")[:TOP_K]
    weights = np.exp((scores[best] - scores[best[0]]) / temperature)
    return dict(zip(best.tolist(), (weights / weights.sum()).tolist(), strict=True))


@pytest.mark.slow
def test_sampled_blocks_have_the_models_own_distribution() -> None:
    """Three tokens from each of many seeds, those after the first drafted by itself.

    Chi-square over 27 outcomes: with 26 degrees of freedom it is above 64 in one world
    of 50,000. The seeds are fixed, so it is always the same.
    """
    side, prompt = local_side(POCKET, hot_share=0.5), text_ids()[5000:5012]
    expected = {}
    for a, p in chances(side, prompt, 1.0).items():
        for b, q in chances(side, [*prompt, a], 1.0).items():
            for c, r in chances(side, [*prompt, a, b], 1.0).items():
                expected[a, b, c] = p * q * r * N_SEEDS
    requests = [
        a_request(
            prompt,
            3,
            sampling=SamplingSettings(temperature=1.0, top_k=TOP_K, seed=seed),
        )
        for seed in range(N_SEEDS)
    ]
    made: list[Speculation] = []
    counts: Counter[tuple[int, ...]] = Counter(
        map(tuple, run_all(side, requests, maker(side, DraftSource.SELF, 2, made)))
    )
    assert counts.keys() <= expected.keys()
    accepted = made[0].counts.n_accepted[DraftSource.SELF]
    assert 0 < accepted < made[0].counts.n_drafted[DraftSource.SELF]
    assert sum((counts[o] - n) ** 2 / n for o, n in expected.items()) < 64.0
