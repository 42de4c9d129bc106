"""Many streams on one engine: scattered, with experts that are missing for some.

What a stream needs and nobody has concerns that stream alone; all others, and that one
too once the expert is back, say what they say by themselves.
"""

import functools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import numpy as np
import trio

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.engine import Engine, EngineParts, open_engine
from p2pmoe.backbone.experts_at_hand import Moves
from p2pmoe.backbone.generation import (
    FailureKind,
    GenerationFailed,
    GenerationRequest,
)
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.scattered import ScatteredExperts
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.config import DiskPolicy, MissingPolicy
from p2pmoe.errors import ExpertsUnavailable
from tests.support.backbone_model import (
    POCKET,
    local_side,
    manifest_of,
    scattered_backbone,
    shards_of,
)
from tests.support.kernels import fastest_kernel
from tests.support.lanes import LaneRig, a_request, decode_alone, limits_of
from tests.support.memory_worker import World, split
from tests.support.trio_test import trio_test

LAYER = 3
N = 10
WITHIN_S = 300
REQUESTS = [a_request(range(5 + i, 9 + i), N) for i in range(8)]


class Watching:
    """Sees which experts each row goes to; may lack one of them."""

    def __init__(
        self, inner: ScatteredExperts, see: Callable[[int, np.ndarray], None]
    ) -> None:
        self.inner, self.see = inner, see

    def begin(self, layer: int, hidden: object, routing: object) -> object:
        self.see(layer, routing.experts)
        return self.inner.begin(layer, hidden, routing)


def experts_used(side: LocalSide, request: GenerationRequest) -> set[int]:
    """Return the experts of LAYER that a request's run asks for."""
    used: set[int] = set()

    def see(layer: int, experts: np.ndarray) -> None:
        if layer == LAYER:
            used.update(experts.ravel().tolist())

    places, description = side.places(), side.model.description
    rig = LaneRig(
        side.model,
        limits_of(n_context=2048, token_bytes=description.kv_bytes_per_token),
        caller=lambda step, deadline, patience_s: Watching(
            ScatteredExperts(places, step, 1e9), see
        ),
    )
    rig.submit(request)
    rig.run()
    return used


def telling_expert(used: Sequence[set[int]]) -> int:
    """Return an expert that about half of the requests need."""
    counts = {e: sum(e in own for own in used) for e in range(32)}
    return min(counts, key=lambda e: abs(counts[e] - len(used) / 2))


class Lack:
    """An expert of LAYER that is nowhere until it `is_back`."""

    def __init__(self, expert: int) -> None:
        self.expert = expert
        self.is_back = False

    def __call__(self, layer: int, experts: np.ndarray) -> None:
        rows = np.flatnonzero((experts == self.expert).any(axis=1))
        if layer == LAYER and len(rows) and not self.is_back:
            raise ExpertsUnavailable("nobody holds it", rows=rows.tolist())


@asynccontextmanager
async def lacking_engine(
    side: LocalSide, lack: Lack, **parts: object
) -> AsyncIterator[Engine]:
    places = side.places()

    def experts(step: StepTrace, deadline: float, patience_s: float | None) -> Watching:
        return Watching(ScatteredExperts(places, step, deadline), lack)

    async with open_engine(
        EngineParts(
            model=side.model,
            experts=experts,
            cancel=lambda step: None,
            counters=BackboneCounters(),
            monotonic=time.monotonic,
            **parts,
        )
    ) as engine:
        with trio.fail_after(WITHIN_S):
            yield engine


class Until:
    """Waits until these requests are answered."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = set(numbers)
        self.reached = trio.Event()

    def look(self, found: dict[int, list[int] | FailureKind]) -> None:
        if self.numbers <= set(found):
            self.reached.set()


async def answers(
    engine: Engine, found: dict[int, list[int] | FailureKind], *waits: Until
) -> None:
    """Run all requests at once; `found` has tokens, or how one failed."""

    async def ask(number: int) -> None:
        tokens: list[int] = []
        try:
            async with engine.generate(REQUESTS[number]) as run:
                async for step in run:
                    tokens += step.tokens
        except GenerationFailed as failed:
            found[number] = failed.kind
        else:
            found[number] = tokens
        for wait in waits:
            wait.look(found)

    async with trio.open_nursery() as nursery:
        for number in range(len(REQUESTS)):
            nursery.start_soon(ask, number)


@functools.cache
def pocket() -> tuple[LocalSide, list[list[int]], list[set[int]]]:
    """Return a side with all experts, what each request says, and what it uses."""
    side = local_side(POCKET)
    alone = [decode_alone(side, request)[0] for request in REQUESTS]
    return side, alone, [experts_used(side, request) for request in REQUESTS]


@trio_test
async def test_b11_a_missing_expert_ends_only_the_streams_that_need_it() -> None:
    side, alone, used = pocket()
    expert = telling_expert(used)
    found: dict[int, list[int] | FailureKind] = {}
    async with lacking_engine(side, Lack(expert)) as engine:
        await answers(engine, found)
    for number, own in enumerate(used):
        lost = FailureKind.UPSTREAM_LOST
        assert found[number] == (lost if expert in own else alone[number])
    assert len({expert in own for own in used}) == 2


@trio_test
async def test_streams_wait_for_an_expert_while_others_go_on() -> None:
    side, alone, used = pocket()
    expert = telling_expert(used)
    lack = Lack(expert)
    found: dict[int, list[int] | FailureKind] = {}
    parts = {"missing": MissingPolicy.WAIT, "park_after_s": 0.01}
    async with lacking_engine(side, lack, **parts) as engine:
        async with trio.open_nursery() as nursery:
            free = Until([i for i, own in enumerate(used) if expert not in own])
            ask = functools.partial(answers, engine, found, free)
            nursery.start_soon(ask)
            await free.reached.wait()
            assert set(found) == free.numbers
            lack.is_back = True
    assert [found[i] for i in range(len(REQUESTS))] == alone


@trio_test
async def test_streams_over_workers_say_what_they_say_alone(tmp_path: Path) -> None:
    _, alone, used = pocket()
    expert = ExpertId(LAYER, telling_expert(used))
    side = local_side(POCKET, hot_share=0.3, policy=DiskPolicy.OFF)
    world = World(manifest_of(POCKET), tmp_path)
    found: dict[int, list[int] | FailureKind] = {}
    async with world.services(), AsyncExitStack() as stack:
        away = set(side.all_experts()) - set(side.hot.resident())
        if expert not in away:
            side.hot.apply(Moves(load=(), evict=(expert,)))
            away.add(expert)
        for at, hand in enumerate(split(away - {expert}, 3)):
            worker = world.worker(
                fastest_kernel(), shards_of(POCKET, hand), device_class=at % 2
            )
            await stack.enter_async_context(worker)
        parts = {"missing": MissingPolicy.WAIT, "park_after_s": 0.2}
        async with scattered_backbone(world, side, **parts) as backbone:
            await backbone.covers(away - {expert})
            free = Until([i for i, o in enumerate(used) if expert.index not in o])
            everyone = Until(range(len(REQUESTS)))
            ask = functools.partial(answers, backbone.engine, found, free, everyone)
            late = world.worker(fastest_kernel(), shards_of(POCKET, {expert}))
            with trio.fail_after(WITHIN_S):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ask)
                    await free.reached.wait()
                    assert set(found) == free.numbers
                    async with late:
                        await everyone.reached.wait()
                        assert await backbone.joined.side.drain(60)
            totals = backbone.joined.settlement.totals()
            assert totals.receipted == totals.accepted == world.ledger.n_receipts
    assert [found[i] for i in range(len(REQUESTS))] == alone
