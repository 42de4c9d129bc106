"""Requests onto lanes: admission, ends, failures and cancellation (B18, B20, B23)."""

import functools
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest
import trio
import trio.lowlevel
import trio.testing

from mobile_worker.arithmetic.errors import NonFinite
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.engine import (
    Engine,
    EngineParts,
    EngineRun,
    failure_of,
    open_engine,
)
from p2pmoe.backbone.generation import (
    FailureKind,
    FinishReason,
    GenerationFailed,
    GenerationRequest,
)
from p2pmoe.backbone.lane_events import DeadlinePassed
from p2pmoe.backbone.scattered import ScatteredExperts
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.errors import (
    Cancelled,
    ExpertsUnavailable,
    NotFinite,
    P2pmoeError,
)
from p2pmoe.model.errors import CacheFull, CombineRefused
from p2pmoe.model.logits import Logits
from p2pmoe.model.sampler import SamplingSettings, log_probabilities
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.errors import ModelFileError
from tests.support.backbone_model import (
    POCKET,
    local_backbone,
    local_side,
    model_of,
)
from tests.support.lanes import a_request, decode_alone
from tests.support.recalling_model import TOKEN_BYTES, RecallingModel, cold_run
from tests.support.scripted_model import (
    N_LAYERS,
    TOP_K,
    ScriptedModel,
    ask,
)
from tests.support.trio_test import trio_test

STOP = 9
STOPS = frozenset({STOP})
A_STEP = N_LAYERS * TOP_K


@dataclass
class BatchExperts:
    """Counts calls by request, and refuses them once nobody wants the step."""

    step: StepTrace
    n_calls: dict[RequestTrace, int]

    def begin(self, layer: int, hidden: object, routing: object) -> None:
        del layer, hidden, routing
        if self.step.cancelled:
            raise Cancelled("the request was cancelled")
        for trace in self.step.traces:
            self.n_calls[trace] = self.n_calls.get(trace, 0) + TOP_K


@dataclass
class Rig:
    """An engine over a scripted model; `n_calls` are its requests' expert calls."""

    model: ScriptedModel
    engine: Engine
    counters: BackboneCounters
    n_calls: dict[RequestTrace, int]
    told: list[StepTrace] = field(default_factory=list)  # steps that were stopped
    now: float = 0.0


@asynccontextmanager
async def rig_of(model: ScriptedModel, **parts: object) -> AsyncIterator[Rig]:
    n_calls: dict[RequestTrace, int] = {}
    told: list[StepTrace] = []
    rigs: list[Rig] = []
    counters = BackboneCounters()
    engine_parts = EngineParts(
        model=model,
        experts=lambda step, deadline, patience_s: BatchExperts(step, n_calls),
        cancel=told.append,
        counters=counters,
        monotonic=lambda: rigs[0].now if rigs else 0.0,
        **parts,
    )
    async with open_engine(engine_parts) as engine:
        rigs.append(Rig(model, engine, counters, n_calls, told))
        with trio.fail_after(10):
            yield rigs[0]


class Gate:
    """Holds the decode thread in chosen steps until the test lets it go."""

    def __init__(self, *steps: int) -> None:
        self._steps = steps
        self._token: trio.lowlevel.TrioToken | None = None
        self._reached = trio.Event()
        self._go = threading.Event()
        self.held: list[int] = []  # steps; `open` lets all of them go

    def __call__(self, step: int) -> None:
        if step in self._steps:
            self._go.clear()
            self.held.append(step)
            assert self._token is not None
            self._token.run_sync_soon(self._reached.set)
            assert self._go.wait(10)

    async def reached(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        await self._reached.wait()
        self._reached = trio.Event()

    def open(self) -> None:
        self._go.set()


def gated(script: list[int], *steps: int) -> tuple[ScriptedModel, Gate]:
    gate = Gate(*steps)
    gate._token = trio.lowlevel.current_trio_token()
    return ScriptedModel(script, on_step=gate), gate


async def tokens_of(run: EngineRun, into: list[int] | None = None) -> list[int]:
    tokens = [] if into is None else into
    async for step in run:
        tokens += step.tokens
    return tokens


async def ended(rig: Rig, request: GenerationRequest) -> tuple[list[int], EngineRun]:
    async with rig.engine.generate(request) as run:
        return await tokens_of(run), run


# Ends.


@trio_test
async def test_a_request_runs_to_its_end_and_its_figures_add_up() -> None:
    async with rig_of(ScriptedModel([5, 6, 7])) as rig:
        tokens, run = await ended(rig, ask(3))
        assert tokens == [5, 6, 7]
        end = run.end()
        assert end.finish_reason is FinishReason.LENGTH
        assert (end.usage.prompt_tokens, end.usage.completion_tokens) == (4, 3)
        assert rig.counters.requests == {"length": 1}
        assert rig.counters.completion_tokens == 3
        assert rig.counters.prompt_tokens == 4
        assert rig.engine.n_active == rig.engine.n_waiting == 0
        assert rig.told == []  # a finished request is not cancelled


@pytest.mark.parametrize(
    ("script", "max_tokens", "tokens", "reason"),
    [
        ([10, 11, STOP, 20, 21, 22], 5, [10, 11, STOP], FinishReason.STOP),
        ([10, 11, 12, 13, 14, STOP], 5, [10, 11, 12, 13, 14], FinishReason.LENGTH),
        ([STOP], 5, [STOP], FinishReason.STOP),
        (list(range(20, 40)), 8, list(range(20, 28)), FinishReason.LENGTH),
        ([10, 11, 12], 1, [10], FinishReason.LENGTH),
    ],
)
@trio_test
async def test_b18_what_is_delivered_is_what_is_counted(
    script: list[int], max_tokens: int, tokens: list[int], reason: FinishReason
) -> None:
    async with rig_of(ScriptedModel(script)) as rig:
        found, run = await ended(rig, ask(max_tokens, stop=STOPS))
        assert found == tokens
        assert run.end().usage.completion_tokens == len(tokens)
        assert run.end().finish_reason is reason
        assert rig.counters.completion_tokens == len(tokens)
        assert rig.counters.requests == {reason.value: 1}
        assert rig.n_calls[run.trace] == A_STEP * len(tokens)


@trio_test
async def test_figures_may_be_asked_in_mid_run() -> None:
    model, gate = gated([5, 6, 7], 2)
    async with rig_of(model) as rig, rig.engine.generate(ask(3)) as run:
        assert (await anext(run)).tokens == (5,)
        await gate.reached()
        assert run.end().finish_reason is None
        assert run.end().usage.completion_tokens == 1
        gate.open()
        assert await tokens_of(run) == [6, 7]


# Admission.


@trio_test
async def test_requests_wait_in_order_and_not_too_many() -> None:
    model, gate = gated([5], 1, 2, 3)
    order: list[str] = []
    async with rig_of(model, max_batch=1, max_queued=2) as rig:

        async def client(name: str) -> None:
            async with rig.engine.generate(ask(1)) as run:
                order.append(name)
                assert await tokens_of(run) == [5]

        async with trio.open_nursery() as nursery:
            for name in ("first", "second", "third"):
                nursery.start_soon(client, name)
                await trio.testing.wait_all_tasks_blocked()
            await gate.reached()
            assert rig.engine.n_active == 1
            assert rig.engine.n_waiting == 2
            with pytest.raises(GenerationFailed) as caught:
                await ended(rig, ask(1))
            assert caught.value.kind is FailureKind.OVERLOADED
            gate.open()
            for _ in range(2):
                await gate.reached()
                gate.open()
        assert order == ["first", "second", "third"]
        assert rig.engine.n_waiting == 0


@trio_test
async def test_lanes_run_at_once_and_a_request_says_how_long_it_waited() -> None:
    model, gate = gated([5], 1)
    async with rig_of(model, max_batch=1) as rig, trio.open_nursery() as nursery:
        nursery.start_soon(ended, rig, ask(1))
        await gate.reached()
        waited: list[float] = []
        done = trio.Event()

        async def second() -> None:
            _, run = await ended(rig, ask(1))
            waited.append(run.end().timings.queued_s)
            done.set()

        nursery.start_soon(second)
        await trio.testing.wait_all_tasks_blocked()
        rig.now += 7.0
        gate.open()
        await done.wait()
        assert waited == [7.0]


# Cancellation.


@trio_test
async def test_b20_leaving_the_queue_stops_nobody_else() -> None:
    model, gate = gated([5, 6], 1)
    async with rig_of(model, max_batch=1) as rig, rig.engine.generate(ask(2)) as active:
        await gate.reached()
        with trio.move_on_after(0):
            await ended(rig, ask(2))
        assert rig.engine.n_waiting == 0
        assert rig.told == []
        gate.open()
        assert await tokens_of(active) == [5, 6]
        assert len(rig.n_calls) == 1  # the other was never begun


@trio_test
async def test_b20_no_call_after_the_step_in_which_a_client_leaves() -> None:
    model, gate = gated([5] * 1000, 10)
    async with rig_of(model, max_batch=1) as rig:
        async with rig.engine.generate(ask(1000)) as run:
            await anext(run)
            await gate.reached()
            before = rig.n_calls[run.trace]
        assert run.trace.cancelled
        assert [step.traces for step in rig.told] == [(run.trace,)]
        gate.open()
        await rig.engine.idle()
        assert rig.n_calls[run.trace] - before <= A_STEP
        assert len(model.steps) == 10
        assert rig.counters.requests == {"cancelled": 1}
        model.script = [7]
        tokens, _ = await ended(rig, ask(1))  # the lane is free
        assert tokens == [7]


@trio_test
async def test_b20_a_client_that_leaves_in_prefill_frees_the_lane() -> None:
    model, gate = gated([5], 2)
    model.n_prompt = 12
    async with rig_of(model, max_batch=1, chunk_tokens=4) as rig:
        async with rig.engine.generate(ask(1, n_prompt=12)):
            await gate.reached()
        gate.open()
        await rig.engine.idle()
        assert len(model.steps) == 2
        assert rig.counters.completion_tokens == 0


@trio_test
async def test_b20_one_clients_leaving_changes_nothing_for_the_other() -> None:
    model, gate = gated([5, 6, 7, 8], 3)
    async with rig_of(model, n_lanes=2) as rig, rig.engine.generate(ask(4)) as stays:
        async with rig.engine.generate(ask(100_000)):  # it cannot end by itself
            await gate.reached()
        gate.open()
        assert await tokens_of(stays) == [5, 6, 7, 8]
        await rig.engine.idle()
        assert sorted(rig.counters.requests) == ["cancelled", "length"]


@trio_test
async def test_b20_many_cancelled_requests_leave_nothing_behind() -> None:
    async with rig_of(ScriptedModel([5] * 64), n_lanes=2) as rig:
        tasks = trio.lowlevel.current_statistics().tasks_living
        for cycle in range(100):
            async with rig.engine.generate(ask(64)) as run:
                for _ in range(cycle % 3):
                    await anext(run)
        await rig.engine.idle()
        await trio.testing.wait_all_tasks_blocked()
        assert rig.engine.n_active == rig.engine.n_waiting == 0
        assert rig.engine.schedule.pool.granted_bytes == 0
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        assert sum(rig.counters.requests.values()) == 100


@trio_test
async def test_b20_one_that_is_preempted_and_leaves_before_that_is_heard() -> None:
    both, preempted, go = threading.Event(), threading.Event(), threading.Event()

    def watch(step: int) -> None:
        assert step == 1 or both.wait(10)  # or the first ends before the second asks
        if rigs and rigs[0].engine.schedule.n_preemptions and not preempted.is_set():
            preempted.set()
            assert go.wait(10)

    async def let_go() -> None:
        await trio.testing.wait_all_tasks_blocked()
        both.set()

    rigs: list[Rig] = []
    model = ScriptedModel([5] * 300, on_step=watch)
    async with rig_of(model, kv_bytes=1600) as rig, trio.open_nursery() as nursery:
        rigs.append(rig)
        async with rig.engine.generate(ask(300)) as stays:
            nursery.start_soon(let_go)
            async with rig.engine.generate(ask(300)):
                # This thread hears nothing meanwhile: tokens, and then no slot.
                assert preempted.wait(10)
            go.set()
            assert len(await tokens_of(stays)) == 300
            await rig.engine.idle()
        assert sorted(rig.counters.requests) == ["cancelled", "length"]


@trio_test
async def test_tokens_after_a_cancellation_are_not_counted() -> None:
    model, gate = gated([5, 6], 1)
    async with rig_of(model) as rig:
        async with rig.engine.generate(ask(1)) as run:
            await gate.reached()
        gate.open()
        await rig.engine.idle()
        assert run.n_tokens == 0
        assert rig.counters.completion_tokens == 0


@trio_test
async def test_cancel_all_and_closing_end_every_request() -> None:
    model, gate = gated([5] * 64, 1, 2)
    async with rig_of(model, n_lanes=2) as rig, trio.open_nursery() as nursery:
        kinds: list[FailureKind] = []

        async def client() -> None:
            with pytest.raises(GenerationFailed) as caught:
                await ended(rig, ask(64))
            kinds.append(caught.value.kind)

        nursery.start_soon(client)
        nursery.start_soon(client)
        while len(gate.held) < 2:
            await trio.lowlevel.checkpoint()
        rig.engine.cancel_all()
        gate.open()
        await rig.engine.idle()
    assert kinds == [FailureKind.NOT_READY] * 2
    assert rig.engine.n_active == 0


# Failures.


def raising(error: BaseException, at_step: int) -> Callable[[int], None]:
    def on_step(step: int) -> None:
        if step == at_step:
            raise error

    return on_step


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ExpertsUnavailable("no holder of expert 3"), FailureKind.UPSTREAM_LOST),
        (DeadlinePassed("too late"), FailureKind.DEADLINE),
        (NotFinite("layer 3, expert 7"), FailureKind.ARITHMETIC),
        (NonFinite("a value"), FailureKind.ARITHMETIC),
        (CombineRefused("rows"), FailureKind.ARITHMETIC),
        (ModelFileError(Path("/secret/m"), "is short"), FailureKind.UPSTREAM_LOST),
        (P2pmoeError("/secret/model.gguf needs 5 bytes"), FailureKind.INTERNAL),
        (ZeroDivisionError("x / 0"), FailureKind.INTERNAL),
    ],
)
@pytest.mark.parametrize("n_before", [0, 2])
@trio_test
async def test_b23_a_failure_is_never_an_end(
    error: Exception, kind: FailureKind, n_before: int
) -> None:
    model = ScriptedModel([5, 6, 7], on_step=raising(error, 1 + n_before))
    async with rig_of(model) as rig:
        tokens: list[int] = []
        async with rig.engine.generate(ask(3)) as run:
            with pytest.raises(GenerationFailed) as caught:
                await tokens_of(run, tokens)
            with pytest.raises(GenerationFailed):
                await anext(run)  # and it stays one
        assert caught.value.kind is kind
        assert tokens == [5, 6][:n_before]
        assert run.end().finish_reason is None
        assert run.end().usage.completion_tokens == n_before
        assert rig.counters.requests == {"failed": 1}
        told = [step.traces for step in rig.told]
        assert told == [(run.trace,)]  # what is under way for it is stopped
        if kind is FailureKind.INTERNAL:
            assert str(caught.value) == "the backbone failed"
        model.on_step = lambda step: None
        model.script = [8]
        assert (await ended(rig, ask(1)))[0] == [8]  # the engine goes on


@trio_test
async def test_b23_a_deadline_in_mid_stream_is_a_failure() -> None:
    async with rig_of(ScriptedModel([5] * 64), deadline_s=60.0) as rig:

        def dawdle(step: int) -> None:
            rig.now += 25.0

        rig.model.on_step = dawdle
        async with rig.engine.generate(ask(64)) as run:
            with pytest.raises(GenerationFailed) as caught:
                await tokens_of(run)
        assert caught.value.kind is FailureKind.DEADLINE
        assert run.n_tokens == 3


@trio_test
async def test_b23_an_engine_that_is_torn_down_fails_its_requests() -> None:
    model, gate = gated([5, 6, 7], 1)
    engines: list[Rig] = []
    scope = trio.CancelScope()

    async def engine(
        *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with scope:
            async with rig_of(model) as rig:
                engines.append(rig)
                task_status.started()
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        await nursery.start(engine)
        async with engines[0].engine.generate(ask(3)) as run:
            await gate.reached()
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            gate.open()
            with pytest.raises(GenerationFailed):
                await tokens_of(run)
    assert len(model.steps) == 1
    with pytest.raises(GenerationFailed, match="ends"):
        await ended(engines[0], ask(1))


def test_what_a_client_may_know_of_an_error() -> None:
    assert failure_of(Cancelled("the client left")).kind is FailureKind.NOT_READY
    told = failure_of(ExpertsUnavailable("layer 3: no holder of expert 7"))
    assert told.reason == "layer 3: no holder of expert 7"
    lost = failure_of(ModelFileError(Path("/home/m.gguf"), "needs 9 bytes, has 4"))
    assert lost.reason == "the model file has lost weights that every token needs"
    hidden = failure_of(OSError("/home/me/model.gguf"))
    assert "/home" not in str(hidden)


@trio_test
async def test_b20_a_real_models_calls_end_within_one_step() -> None:
    side = local_side(POCKET)
    description = side.model.description
    async with local_backbone(side) as backbone:
        async with backbone.engine.generate(ask(200)) as run:
            for _ in range(3):
                await anext(run)
            side.use.take_since()
        await backbone.engine.idle()
        after = sum(n_rows for _, n_rows in side.use.take_since())
        assert after <= len(description.moe_layers) * description.top_k
        assert run.end().usage.completion_tokens < 200
        assert backbone.engine.n_active == 0


# Many at once, on lanes of one model.


@trio_test
async def test_b20_one_clients_leaving_changes_nothing_within_its_batch() -> None:
    model, gate = gated([5, 6, 7, 8], 1, 3)
    async with rig_of(model) as rig, trio.open_nursery() as nursery:

        async def leaves() -> None:
            async with rig.engine.generate(ask(1000)) as run:
                await gate.reached()
            gate.open()
            await rig.engine.idle()
            assert run.end().usage.completion_tokens <= 3

        async with rig.engine.generate(ask(4)) as stays:
            await gate.reached()
            nursery.start_soon(leaves)
            await trio.testing.wait_all_tasks_blocked()
            gate.open()
            assert await tokens_of(stays) == [5, 6, 7, 8]
        await rig.engine.idle()
        assert rig.told == []  # the step was the other's, too
        assert sorted(rig.counters.requests) == ["cancelled", "length"]


@trio_test
async def test_b29_a_reader_that_never_reads_delays_nobody() -> None:
    async with rig_of(ScriptedModel([5] * 64)) as rig:
        async with rig.engine.generate(ask(60)) as slow:
            tokens, _ = await ended(rig, ask(64))
            assert len(tokens) == 64
            await rig.engine.idle()
            assert slow.end().usage.completion_tokens == 60
            assert slow.end().finish_reason is FinishReason.LENGTH
            assert len(await tokens_of(slow)) == 60


@trio_test
async def test_what_can_never_fit_is_refused_as_the_requests_own_fault() -> None:
    async with rig_of(ScriptedModel([5]), kv_bytes=40) as rig:
        with pytest.raises(CacheFull) as caught:
            await ended(rig, ask(7))
        assert not isinstance(caught.value, GenerationFailed)
        assert (await ended(rig, ask(6)))[0][0] == 5


@trio_test
async def test_a_request_that_leaves_the_full_queue_for_another_client_hears_it() -> (
    None
):
    model, gate = gated([5], 1)
    kinds: list[tuple[FailureKind, bool]] = []
    async with rig_of(model, max_batch=1, max_queued=2) as rig:

        async def greedy() -> None:
            try:
                await ended(rig, ask(1))
            except GenerationFailed as failed:
                kinds.append((failed.kind, failed.retry_s is not None))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(greedy)
            await gate.reached()
            for _ in range(2):
                nursery.start_soon(greedy)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ended, rig, replace(ask(1), client="other"))
            await trio.testing.wait_all_tasks_blocked()
            assert kinds == [(FailureKind.OVERLOADED, True)]
            gate.open()
        assert rig.counters.requests == {"length": 3}


@trio_test
async def test_an_idle_engine_sleeps_and_its_threads_end_with_it() -> None:
    async with rig_of(ScriptedModel([5]), n_lanes=2) as rig:
        await ended(rig, ask(1))
        asleep = rig.engine._lock._waiters
        while len(asleep) < 2:
            await trio.lowlevel.checkpoint()
        calls: list[int] = []
        plain = rig.engine.schedule.next_step
        rig.engine.schedule.next_step = lambda lane, now: (
            calls.append(lane) or plain(lane, now)
        )
        await trio.testing.wait_all_tasks_blocked()
        assert len(asleep) == 2
        assert calls == []
    assert len(asleep) == 0  # `open_engine` waits for its lanes


def prompts_of_b16() -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return client A's system prompt and a hundred prompts of others."""
    tokenizer = load_tokenizer(model_of(POCKET))
    encode = functools.partial(tokenizer.encode, bos=tokenizer.vocabulary.add_bos)
    secret = encode("You are Machine 1, secret zebra-7731. Tell nobody.")
    openings = ("The sea was", "You are Machine 2.", "Once", "You are Machine 1, and")
    others = [
        tuple(encode(f"{openings[i % 4]} {'very ' * (i % 7)}number {i % 25}"))
        for i in range(100)
    ]
    return tuple(secret), others


@trio_test
async def test_b16_a_hundred_clients_get_what_a_cold_process_gives() -> None:
    side = local_side(POCKET)
    secret, others = prompts_of_b16()
    tokenizer = load_tokenizer(model_of(POCKET))
    reused: list[tuple[tuple[int, ...], int]] = []
    answers: dict[tuple[int, ...], list[int]] = {}

    async with local_backbone(side, chunk_tokens=8, max_queued=200) as backbone:
        engine = backbone.engine

        async def tells_a_secret(n: int) -> None:
            request = replace(a_request(secret, 200), client="A")
            async with engine.generate(request) as run:
                for _ in range(n):
                    await anext(run)  # n 0: it leaves in mid-prefill

        async def asks(number: int) -> None:
            client = f"B{number % 10}"
            request = replace(a_request(others[number], 6), client=client)
            async with engine.generate(request) as run:
                tokens = await tokens_of(run)
            assert answers.setdefault(others[number], tokens) == tokens
            reused.append((others[number], run.end().usage.cached_tokens))

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(asks, number)
                if number % 10 == 0:
                    nursery.start_soon(tells_a_secret, number % 3)
        await engine.idle()
        assert backbone.engine.schedule.pool.granted_bytes == 0
        hits = engine.schedule.n_prefix_hits
    text = b"".join(
        tokenizer.token_bytes(token) for own in answers.values() for token in own
    )
    assert text.count(b"zebra") == 0
    for prompt, tokens in answers.items():
        cold, _ = decode_alone(side, a_request(prompt, 6))
        assert tokens == cold
    assert hits >= sum(n > 0 for _, n in reused) > 10
    for prompt, n in reused:  # never more than another prompt of its own shares
        assert n <= len(prompt) - 1


@trio_test
async def test_sampled_tokens_are_those_of_a_single_run() -> None:
    side = local_side(POCKET)
    _, prompts = prompts_of_b16()
    requests = [
        replace(
            a_request(prompts[i], 12),
            client=str(i % 3),
            sampling=SamplingSettings(temperature=1.0, seed=i % 4, top_p=0.95),
        )
        for i in range(24)
    ]
    found: dict[int, list[int]] = {}
    # Room for three or four of them: some wait, some are preempted.
    n_bytes = 200 * side.model.description.kv_bytes_per_token
    parts = {"kv_bytes": n_bytes, "chunk_tokens": 5, "n_lanes": 2}
    async with local_backbone(side, **parts) as backbone:

        async def client(number: int) -> None:
            async with backbone.engine.generate(requests[number]) as run:
                found[number] = await tokens_of(run)

        async with trio.open_nursery() as nursery:
            for number in range(24):
                nursery.start_soon(client, number)
    for number, request in enumerate(requests):
        assert found[number] == decode_alone(side, request)[0]


@trio_test
async def test_b20_whatever_is_cancelled_whenever_the_rest_is_as_alone() -> None:
    """Two lanes of threads, a pool that is too small, clients that come and go."""
    model = RecallingModel()
    random = Random(7)
    n_bytes = 800 * TOKEN_BYTES
    counters = BackboneCounters()
    parts = EngineParts(
        model=model,
        experts=lambda step, deadline, patience_s: None,
        cancel=lambda step: None,
        counters=counters,
        monotonic=lambda: 0.0,
        n_lanes=2,
        max_batch=4,
        max_queued=400,
        chunk_tokens=16,
        kv_bytes=n_bytes,
    )

    async def client(number: int) -> None:
        prompt = [random.randrange(4) for _ in range(random.randrange(1, 60))]
        n, leaves = random.choice((5, 100, 500)), random.randrange(-60, 60)
        request = a_request(prompt, n, client=str(number % 7))
        tokens: list[int] = []
        with trio.CancelScope() as scope:
            for _ in range(random.randrange(5)):
                await trio.lowlevel.checkpoint()
            async with engine.generate(request) as run:
                async for step in run:
                    tokens += step.tokens
                    if len(tokens) == leaves:
                        scope.cancel()
            assert tokens == cold_run(request)
        assert tokens == cold_run(request)[: len(tokens)]

    with trio.fail_after(60):
        async with open_engine(parts) as engine:
            async with trio.open_nursery() as nursery:
                for number in range(60):
                    nursery.start_soon(client, number)
            await engine.idle()
            pool = engine.schedule.pool
            assert pool.granted_bytes == engine.n_active == engine.n_waiting == 0
            assert model.live_bytes == pool.kept_bytes <= n_bytes
            assert engine.schedule.n_preemptions > 0
    assert sum(counters.requests.values()) == 60


@trio_test
async def test_a_prompts_log_probabilities_are_there_with_the_first_token() -> None:
    side = local_side(POCKET)
    prompt = tuple(range(5, 30))
    request = replace(
        a_request(prompt, 4), scores_prompt=True, n_top_logprobs=3, explains=True
    )
    cache = side.model.new_cache(40)
    experts = ScatteredExperts(side.places(), StepTrace.of(RequestTrace()), 1e9)
    whole = side.model.forward(prompt, cache, experts, logits=Logits.ALL)
    expected = log_probabilities(whole)
    async with local_backbone(side, chunk_tokens=7) as backbone:
        async with backbone.engine.generate(request) as run:
            assert run.end().finish_reason is None
            first = await anext(run)
            told = run.prompt_logprobs()
            rest = await tokens_of(run)
    assert [own.token for own in told] == list(prompt)
    for place, own in enumerate(told[1:]):
        assert own.logprob == expected[place][own.token]
        assert own.top[0] == (int(whole[place].argmax()), expected[place].max())
    (scored,) = first.logprobs
    assert (scored.token,) == first.tokens == (int(whole[-1].argmax()),)
    assert first.figures is not None
    assert first.figures.calls.ram > 0
    assert len(rest) == 3


@trio_test
async def test_keys_and_values_take_no_more_bytes_than_they_are_counted_with() -> None:
    side = local_side(POCKET)
    each = side.model.description.kv_bytes_per_token
    async with local_backbone(side, kv_bytes=700 * each) as backbone:
        engine = backbone.engine

        async def client(number: int) -> None:
            request = a_request(range(5 + number, 60 + number), 150)
            async with engine.generate(request) as run:
                async for _ in run:
                    pool = engine.schedule.pool
                    assert pool.granted_bytes + pool.kept_bytes <= pool.n_bytes
                    caches = [s.cache for own in engine.schedule.lanes for s in own]
                    held = sum(c.n_bytes for c in caches if c is not None)
                    assert held <= pool.n_bytes

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(client, number)
        kept = [own.cache.n_bytes for own in engine.schedule.pool.store]
        assert 0 < sum(kept) <= engine.schedule.pool.kept_bytes <= 700 * each
