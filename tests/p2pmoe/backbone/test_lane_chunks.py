"""A lane's prompts in chunks that are under way together: nothing of them is told."""

import itertools
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.backbone import prefill
from p2pmoe.backbone.generation import FinishReason
from p2pmoe.backbone.lane_events import StepFailed
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.config import DiskPolicy, MissingPolicy
from p2pmoe.errors import Cancelled, ExpertsUnavailable
from tests.support.backbone_model import (
    POCKET,
    generate,
    local_backbone,
    local_side,
    manifest_of,
    scattered_backbone,
    shards_of,
)
from tests.support.distant_experts import Clock, DistantExperts
from tests.support.lanes import LaneRig, a_request, limits_of
from tests.support.memory_worker import World, split
from tests.support.mini_models import write_mini
from tests.support.tiny_model import TinyModel, load_local
from tests.support.trio_test import trio_test

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 4
LONG = tuple(5 + i * 7 % 80 for i in range(30))


@pytest.fixture(scope="module")
def mini(tmp_path_factory) -> TinyModel:
    return load_local(write_mini(tmp_path_factory.mktemp("mini") / "m", "qwen3moe"))


class Rig:
    """A lane whose experts answer after a while, on a clock of its own."""

    def __init__(self, mini: TinyModel, prefill_steps: int = 4, **options) -> None:
        self.mini, self.clock = mini, Clock()
        self.delay: Callable[[], float] = lambda: 1.0
        self.on_begin: Callable[[int], object] = lambda n: None
        self.n_asked = 0
        self.most = 0
        limits = limits_of(
            chunk_tokens=CHUNK, prefill_steps=prefill_steps, n_context=120
        )
        self.lane = LaneRig(mini.model, limits, experts=self.experts, **options)

    def experts(self, step: StepTrace) -> DistantExperts:
        rig, (lane,) = self, self.lane.lanes
        assert step in lane.under_way
        rig.most = max(rig.most, len(lane.under_way))

        class Asked(DistantExperts):
            def begin(self, layer, hidden, routing):
                if step.cancelled:
                    raise Cancelled("the request was cancelled")
                rig.n_asked += 1
                for trace in step.traces:
                    trace.bytes_up += len(hidden)
                rig.on_begin(rig.n_asked)
                return super().begin(layer, hidden, routing)

        return Asked(rig.mini.experts, rig.clock, lambda _: rig.delay())

    def run(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prefill.threading, "Event", lambda: self.clock)
            self.lane.run()
        (lane,) = self.lane.lanes
        assert lane.under_way == ()

    def stopped(self) -> list[StepTrace]:
        return [e.step for e in self.lane.events if isinstance(e, StepFailed)]


def told(rig: Rig, sequence: SequenceState) -> tuple:
    steps = rig.lane.steps(sequence)
    logprobs = [step.logprobs for step in steps]
    return rig.lane.tokens(sequence), logprobs, sequence.prompt_logprobs


PROMPTS = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 4), st.booleans()),
    min_size=1,
    max_size=4,
)


@settings(max_examples=20)
@given(prompts=PROMPTS, delays=st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_tokens_and_scores_are_those_of_one_step_after_another(
    mini: TinyModel, prompts: list[tuple[int, int, bool]], delays: list[int]
) -> None:
    found = []
    for n_steps in (1, 4):
        rig, turns = Rig(mini, n_steps), itertools.cycle(delays)
        rig.delay = lambda turns=turns: next(turns)
        sequences = [
            rig.lane.submit(
                a_request(
                    LONG[:n], n_more, scores_prompt=scores, n_top_logprobs=2, client=i
                )
            )
            for i, (n, n_more, scores) in enumerate(prompts)
        ]
        rig.run()
        assert {rig.lane.cause(s) for s in sequences} == {FinishReason.LENGTH}
        found.append([told(rig, s) for s in sequences])
    assert found[0] == found[1]


def test_several_chunks_wait_together(mini: TinyModel) -> None:
    taken = []
    for n_steps in (1, 4):
        rig = Rig(mini, n_steps)
        sequence = rig.lane.submit(a_request(LONG, 2, explains=True))
        rig.run()
        first, last = (step.figures for step in rig.lane.steps(sequence))
        # What overlapping chunks cost is told once.
        assert first.bytes_up == 2 * len(LONG)
        assert last.bytes_up == 2
        assert sequence.trace.bytes_up == 2 * len(LONG) + 2
        taken.append((rig.clock.now, rig.most))
    assert taken == [(18.0, 1), (6.0, 4)]  # 8 chunks and a token, two layers each


def test_nothing_overlaps_with_one_that_decodes(mini: TinyModel) -> None:
    rig = Rig(mini)
    rig.lane.submit(a_request(LONG[:2], 40, client="a"))
    rig.lane.step()
    rig.lane.submit(a_request(LONG, 1, client="b"))
    rig.run()
    assert rig.most == 1


def test_no_chunk_begins_once_another_request_has_come(mini: TinyModel) -> None:
    rig, late = Rig(mini), []

    def on_begin(n: int) -> None:
        if n == 3:
            late.append(rig.lane.submit(a_request(LONG[3:6], 1, client="late")))

    rig.on_begin = on_begin
    early = rig.lane.submit(a_request(LONG, 1))
    rig.run()
    assert [rig.lane.admitted().index(s) for s in (early, *late)] == [0, 1]
    ends = [event.sequence for event in rig.lane.events[-2:]]
    assert ends[-1] is early  # the late one did not wait for all of it
    assert rig.lane.tokens(late[0])


def fails_once(rig: Rig, at: int, error: Exception) -> None:
    def on_begin(n: int) -> None:
        if n == at:
            raise error

    rig.on_begin = on_begin


@pytest.mark.parametrize("at", [1, 2, 5, 7, 12, 16])
def test_a_chunk_that_fails_is_run_again_and_those_that_ended_are_not(
    mini: TinyModel, at: int
) -> None:
    plain, rig = Rig(mini), Rig(mini, missing=MissingPolicy.WAIT)
    expected = plain.lane.submit(a_request(LONG, 3))
    plain.run()
    sequence = rig.lane.submit(a_request(LONG, 3))
    fails_once(rig, at, ExpertsUnavailable("gone", rows=[0]))
    rig.run()
    assert rig.lane.cause(sequence) is None  # it is parked
    assert sequence.length % CHUNK == 0
    n_before = sequence.length
    (first, *others) = rig.stopped()
    assert not {first} & set(others)
    rig.lane.now += 10.0
    rig.n_asked = 100
    rig.run()
    assert rig.lane.cause(sequence) is FinishReason.LENGTH
    assert told(rig, sequence) == told(plain, expected)
    assert n_before < len(LONG)


def test_what_fails_for_good_ends_only_its_own(mini: TinyModel) -> None:
    rig = Rig(mini)
    bad = rig.lane.submit(a_request(LONG, 1, client="bad"))
    good = rig.lane.submit(a_request(LONG[::-1], 2, client="good"))

    def on_begin(n: int) -> None:
        if n >= 5 and rig.lane.cause(bad) is None:
            raise ValueError("at fault")

    rig.on_begin = on_begin
    rig.run()
    assert isinstance(rig.lane.cause(bad), ValueError)
    alone = Rig(mini)
    expected = alone.lane.submit(a_request(LONG[::-1], 2))
    alone.run()
    assert rig.lane.tokens(good) == alone.lane.tokens(expected)


def test_b20_a_cancelled_prompt_ends_with_all_its_chunks(mini: TinyModel) -> None:
    rig = Rig(mini)
    sequence = rig.lane.submit(a_request(LONG, 3))

    def on_begin(n: int) -> None:
        if n == 6:
            sequence.trace.cancelled = True

    rig.on_begin = on_begin
    rig.run()
    assert isinstance(rig.lane.cause(sequence), Cancelled)
    assert rig.n_asked <= 7
    assert rig.stopped() == []  # whoever cancelled has stopped them


def test_an_engine_that_ends_begins_no_more_chunks(mini: TinyModel) -> None:
    rig = Rig(mini)
    (lane,) = rig.lane.lanes
    rig.on_begin = lambda n: lane.close() if n == 1 else None
    sequence = rig.lane.submit(a_request(LONG, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefill.threading, "Event", lambda: rig.clock)
        rig.lane.step()
    assert sequence.length == CHUNK


# Over sessions, with workers.


@trio_test
async def test_a_long_prompt_over_workers_gives_the_tokens_of_one_process(
    tmp_path: Path,
) -> None:
    prompt = tuple(7 + i * 31 % 3000 for i in range(150))
    async with local_backbone(local_side(POCKET)) as alone:
        expected, _ = await generate(alone, prompt, 3)
    side = local_side(POCKET, hot_share=0.4, policy=DiskPolicy.OFF)
    world = World(manifest_of(POCKET), tmp_path)
    world.ledger.float_leaves = 1 << 16
    away = set(side.all_experts()) - set(side.hot.resident())
    most = []
    async with world.services(), AsyncExitStack() as stack:
        for hand in split(away, 2):
            worker = world.worker(NumpyKernel(), shards_of(POCKET, hand))
            await stack.enter_async_context(worker)
        async with scattered_backbone(
            world, side, prefill_steps=4, chunk_tokens=16, n_lanes=1
        ) as backbone:
            await backbone.covers(away)
            (lane,) = backbone.engine.lanes
            note = lane._chunks._note

            def noted() -> None:
                note()
                most.append(len(lane.under_way))

            lane._chunks._note = noted
            found, run = await generate(backbone, prompt, 3)
            assert run.trace.prefill_trips > 9
            accounts = backbone.joined.dispatcher.in_flight()
            assert not accounts
    assert found == expected
    assert 1 <= max(most) <= 4  # how many depends on who is quicker
