"""An expert that nobody holds: what each policy makes of it, with real messages."""

import functools
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import trio

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.exchange import Replies
from p2pmoe.backbone.generation import FailureKind, GenerationFailed
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.places import ExpertPlaces
from p2pmoe.backbone.plan import Tier
from p2pmoe.backbone.scattered import ScatteredExperts
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.config import DiskPolicy, MissingPolicy
from p2pmoe.errors import ExpertsUnavailable, NotFinite
from p2pmoe.model.combine import combine
from p2pmoe.model.experts import Routing
from tests.support.answering_network import AnsweringNetwork
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
from tests.support.memory_worker import World
from tests.support.trio_test import trio_test

PROMPT = tuple(range(5, 25))
LAYER, GONE = 3, ExpertId(3, 2)


def routing_of(*tokens: dict[int, float]) -> Routing:
    """Return a routing of tokens, {expert: weight} each."""
    return Routing(
        experts=np.array([sorted(token) for token in tokens], np.int64),
        weights=np.array([[token[e] for e in sorted(token)] for token in tokens], "f4"),
    )


ROUTING = routing_of({1: 0.7, 2: 0.3}, {3: 0.5, 4: 0.5}, {2: 0.9, 3: 0.1})


def hidden_of(side: LocalSide, n_rows: int) -> np.ndarray:
    random = np.random.default_rng(5)
    n_embd = side.model.description.n_embd
    return random.standard_normal((n_rows, n_embd)).astype(np.float32)


def experts_of(
    places: ExpertPlaces, *, patience_s: float | None = None, within_s: float = 30.0
) -> tuple[ScatteredExperts, RequestTrace]:
    trace = RequestTrace()
    step = StepTrace.of(trace, len(ROUTING.experts))
    deadline = time.monotonic() + within_s
    return ScatteredExperts(places, step, deadline, patience_s), trace


@dataclass
class Missing:
    """A backbone whose network holds all that is away, but for one expert."""

    world: World
    side: LocalSide
    backbone: Backbone
    places: ExpertPlaces
    late_holder: Callable[[], AbstractAsyncContextManager[object]]

    async def layer(self, *, patience_s: float | None = None) -> np.ndarray:
        """Compute one layer of three rows, of which two need the missing expert."""
        experts, self.trace = experts_of(self.places, patience_s=patience_s)

        def compute() -> np.ndarray:
            hidden = hidden_of(self.side, 3)
            return experts.begin(LAYER, hidden, ROUTING).finish()

        return await trio.to_thread.run_sync(compute)


@asynccontextmanager
async def missing_one(folder: Path, **options: object) -> AsyncIterator[Missing]:
    side = local_side(POCKET, hot_share=0.0, policy=DiskPolicy.OFF, **options)
    world = World(manifest_of(POCKET), folder)
    world.ledger.float_leaves = 1 << 16
    away = set(side.all_experts()) - set(side.hot.resident())
    assert GONE in away
    async with world.services(), AsyncExitStack() as stack:
        join = functools.partial(world.worker, NumpyKernel())
        await stack.enter_async_context(join(shards_of(POCKET, away - {GONE})))
        async with scattered_backbone(world, side) as backbone:
            await backbone.covers(away - {GONE})
            yield Missing(
                world=world,
                side=side,
                backbone=backbone,
                places=backbone.places,
                late_holder=lambda: join(shards_of(POCKET, {GONE})),
            )


def oracle(routing: Routing, *, without: int | None = None) -> bytes:
    """Return the layer's bytes, all local; an expert's rows made 0."""
    side = local_side(POCKET)
    places, hidden = side.places(), hidden_of(side, len(routing.experts))
    if without is None:
        experts, _ = experts_of(places)
        return experts.begin(LAYER, hidden, routing).finish().tobytes()
    outputs = {}
    for expert in np.unique(routing.experts).tolist():
        rows = np.nonzero((routing.experts == expert).any(axis=1))[0]
        alone = Routing(
            experts=np.full((len(rows), 1), expert, np.int64),
            weights=np.ones((len(rows), 1), np.float32),
        )
        experts, _ = experts_of(places)
        values = experts.begin(LAYER, hidden[rows], alone).finish()
        outputs[expert] = (rows, values * np.float32(expert != without))
    return combine(routing, outputs).tobytes()


# overlap


class Noting(NumpyKernel):
    """Notes that something is computed here."""

    def __init__(self, order: list[str]) -> None:
        super().__init__()
        self.order = order

    def expert_values(self, *asked):
        self.order.append("computed")
        return super().expert_values(*asked)


@pytest.mark.parametrize("overlap", [True, False])
def test_what_is_here_is_computed_while_workers_do_unless_overlap_is_off(
    overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, order = local_side(POCKET, hot_share=0.3, policy=DiskPolicy.OFF), []
    resident = sorted(e.index for e in side.hot.resident() if e.layer == LAYER)
    away = next(e for e in range(32) if e not in resident)
    routing = routing_of(*[{resident[0]: 0.7, away: 0.3}] * 3)
    network = AnsweringNetwork(side)
    get = Replies.get
    monkeypatch.setattr(Replies, "get", lambda own: order.append("waited") or get(own))
    places = replace(
        side.places(network.network), kernel=Noting(order), overlap=overlap
    )
    experts, trace = experts_of(places)
    pending = experts.begin(LAYER, hidden_of(side, 3), routing)
    pending.compute()
    assert pending.is_ready()
    assert pending.finish().tobytes() == oracle(routing)
    assert order == (["computed", "waited"] if overlap else ["waited", "computed"])
    assert trace.prefill_trips == 1


def test_whoever_waits_for_several_layers_is_told_of_the_one_that_is_ready() -> None:
    side, rung = local_side(POCKET, hot_share=0.0, policy=DiskPolicy.OFF), []
    network = AnsweringNetwork(side, waits=True)
    places = side.places(network.network)
    hidden = hidden_of(side, 3)
    early, late = (
        experts_of(places)[0].begin(LAYER, hidden, ROUTING) for _ in range(2)
    )
    early.notify(lambda: rung.append("early"))
    late.notify(lambda: rung.append("late"))
    assert (early.is_ready(), late.is_ready(), rung) == (False, False, [])
    network.answer(network.asked[1])
    assert (early.is_ready(), late.is_ready(), rung) == (False, True, ["late"])
    assert late.finish().tobytes() == oracle(ROUTING)
    early.abandon()


# wait


@trio_test
async def test_wait_goes_on_exactly_once_a_holder_is_there(tmp_path: Path) -> None:
    async with local_backbone(local_side(POCKET)) as alone:
        expected, _ = await generate(alone, PROMPT, 6)
    async with missing_one(tmp_path) as rig, trio.open_nursery() as nursery:
        answers, answered = [], trio.Event()

        async def ask() -> None:
            answers.append(await generate(rig.backbone, PROMPT, 6))
            answered.set()

        nursery.start_soon(ask)
        await trio.sleep(0.3)
        assert not answers
        async with rig.late_holder():
            with trio.fail_after(20):
                await answered.wait()
        ((tokens, run),) = answers
        assert tokens == expected
        assert run.trace.dropped_calls == 0
        assert run.trace.wait_s > 0.2


@trio_test
async def test_wait_has_patience_and_names_the_rows_that_cannot_go_on(
    tmp_path: Path,
) -> None:
    async with missing_one(tmp_path) as rig:
        start = time.monotonic()
        with pytest.raises(ExpertsUnavailable, match="no holder of expert 2") as failed:
            await rig.layer(patience_s=0.05)
        assert failed.value.rows == (0, 2)
        assert 0.05 <= time.monotonic() - start < 5.0
        rig.backbone.joined.dispatcher.cancel(StepTrace.of(rig.trace))
        async with rig.late_holder():
            await rig.backbone.covers({GONE})
            assert (await rig.layer(patience_s=0.05)).tobytes() == oracle(ROUTING)


# fail


@trio_test
async def test_fail_ends_at_once_and_never_with_a_part(tmp_path: Path) -> None:
    async with missing_one(tmp_path, missing=MissingPolicy.FAIL) as rig:
        with pytest.raises(ExpertsUnavailable, match="nobody holds expert 2") as failed:
            await rig.layer()
        assert failed.value.rows == (0, 2)
        with (
            trio.fail_after(5),
            pytest.raises(GenerationFailed, match="nobody holds") as ended,
        ):
            await generate(rig.backbone, PROMPT, 64)
        assert ended.value.kind is FailureKind.UPSTREAM_LOST
        async with rig.late_holder():
            await rig.backbone.covers({GONE})
            assert (await rig.layer()).tobytes() == oracle(ROUTING)


@pytest.mark.parametrize("policy", [MissingPolicy.FAIL, MissingPolicy.DROP])
@trio_test
async def test_a_holder_that_leaves_in_mid_layer_is_missing_too(
    tmp_path: Path, policy: MissingPolicy
) -> None:
    side = local_side(
        POCKET, hot_share=0.0, policy=DiskPolicy.OFF, missing=policy, drop_bound=0.5
    )
    world = World(manifest_of(POCKET), tmp_path)
    world.ledger.float_leaves = 1 << 16
    away = set(side.all_experts())
    async with world.services(), AsyncExitStack() as stack:
        worker = world.worker(NumpyKernel(), shards_of(POCKET, away))
        only = await stack.enter_async_context(worker)
        async with scattered_backbone(world, side) as backbone:
            await backbone.covers(away)
            told: list[int] = []

            def cut(n_tokens: int) -> None:
                told.append(n_tokens)
                if n_tokens == 3:
                    world.network.disconnect(only.identity.peer_id)

            with trio.fail_after(10), pytest.raises(GenerationFailed) as failed:
                await generate(backbone, PROMPT, 64, on_token=cut)
            assert failed.value.kind is FailureKind.UPSTREAM_LOST
            assert 3 <= len(told) < 64


# drop


@trio_test
async def test_drop_leaves_rows_out_within_the_bound_and_counts_them(
    tmp_path: Path,
) -> None:
    options = {"missing": MissingPolicy.DROP, "drop_bound": 0.95}
    async with missing_one(tmp_path, **options) as rig:
        values = await rig.layer()
        assert values.tobytes() == oracle(ROUTING, without=GONE.index)
        assert values.tobytes() != oracle(ROUTING)
        assert rig.trace.dropped_calls == 1
        _, run = await generate(rig.backbone, PROMPT, 12)
        assert run.trace.dropped_calls > 0
        assert run.end().timings.dropped_calls == run.trace.dropped_calls
        assert rig.backbone.counters.dropped_calls == run.trace.dropped_calls


@trio_test
async def test_drop_fails_for_the_rows_that_would_lose_too_much(
    tmp_path: Path,
) -> None:
    options = {"missing": MissingPolicy.DROP, "drop_bound": 0.5}
    async with missing_one(tmp_path, **options) as rig:
        with pytest.raises(ExpertsUnavailable, match=r"more than 0\.5") as failed:
            await rig.layer()
        assert failed.value.rows == (2,)
        assert rig.trace.dropped_calls == 0


@trio_test
async def test_drop_is_exact_while_nothing_is_missing(tmp_path: Path) -> None:
    options = {"missing": MissingPolicy.DROP, "drop_bound": 1.0}
    async with missing_one(tmp_path, **options) as rig:
        async with rig.late_holder():
            await rig.backbone.covers({GONE})
            assert (await rig.layer()).tobytes() == oracle(ROUTING)
            assert rig.trace.dropped_calls == 0


# What is not finite, and what is counted.


def test_the_row_and_the_expert_that_are_not_finite_are_named() -> None:
    side = local_side(POCKET)
    places = side.places()
    hidden = hidden_of(side, 3)
    hidden[1, 4] = np.inf
    experts, _ = experts_of(places)
    with pytest.raises(NotFinite, match="layer 3") as failed:
        experts.begin(LAYER, hidden, ROUTING).finish()
    assert failed.value.rows == (1,)
    hidden[1] = np.float32(3e38)  # overflows on its way through an expert
    experts, _ = experts_of(places)
    with pytest.raises(NotFinite, match="layer 3, expert 3") as failed:
        experts.begin(LAYER, hidden, ROUTING).finish()
    assert failed.value.rows == (1,)


def test_a_batchs_requests_count_what_they_would_alone() -> None:
    side = local_side(POCKET)
    hidden = hidden_of(side, 3)
    traces = [RequestTrace(), RequestTrace()]
    step = StepTrace(list(zip(traces, (1, 2), strict=True)))
    ScatteredExperts(side.places(), step, 1e12).begin(LAYER, hidden, ROUTING).finish()
    assert [trace.calls[Tier.RAM] for trace in traces] == [2, 3]
    from_disk = local_side(POCKET, hot_share=0.0)
    traces = [RequestTrace(), RequestTrace()]
    step = StepTrace(list(zip(traces, (1, 2), strict=True)))
    ScatteredExperts(from_disk.places(), step, 1e12).begin(
        LAYER, hidden, ROUTING
    ).finish()
    assert [trace.calls[Tier.DISK] for trace in traces] == [2, 3]
    read = sum(trace.read_bytes for trace in traces)
    assert 0 < read <= from_disk.disk.n_read_bytes


@pytest.mark.parametrize("bound", [0.0, 1.0])
def test_what_the_disk_has_lost_is_left_out_within_the_bound(
    tmp_path: Path, bound: float
) -> None:
    copy = tmp_path / "copy.gguf"
    shutil.copyfile(POCKET, copy)
    options = {"missing": MissingPolicy.DROP, "drop_bound": bound}
    side = local_side(copy, hot_share=0.0, **options)
    os.truncate(copy, 4096)
    experts, trace = experts_of(side.places())
    pending = experts.begin(LAYER, hidden_of(side, 3), ROUTING)
    if bound:
        assert not pending.finish().any()  # all of it is lost
        assert trace.dropped_calls == 4
    else:
        with pytest.raises(ExpertsUnavailable, match="has lost expert 1, 2, 3, 4"):
            pending.finish()
