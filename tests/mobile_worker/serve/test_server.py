"""The serve loop over a real kernel: answers, repeats, refusals, cancelling, drain."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest
import trio

from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.errors import SendQueueFull, UnsendableMessage
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.membership import Busy
from mobile_worker.messages.serving import Dispatch, Output, OutputError
from mobile_worker.serve.server import ExpertServer, ServeSettings
from mobile_worker.servings.exposure import Exposure
from mobile_worker.servings.tab import Tab
from relay.keys import PeerId
from tests.support.inline_threads import inline_threads
from tests.support.money import NOW_US, TAB, Money
from tests.support.small_model import SmallModel, small_model
from tests.support.trio_test import trio_test

MODEL = small_model()
PEER, STRANGER = PeerId(b"p" * 32), PeerId(b"s" * 32)


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


class TrioClock:
    def monotonic(self) -> float:
        return trio.current_time()

    def wall_us(self) -> int:
        return NOW_US


class Bench:
    """A server with one backbone, and what it sent."""

    def __init__(self, model: SmallModel = MODEL, **settings: int) -> None:
        self.money = Money(manifest_hash=model.name)
        self.tab = Tab(self.money.terms(), Exposure())
        self.tab.allow(self.money.allowance(self.money.prices(), float_leaves=100))
        _, self.held = model.held()
        self.sent: list = []
        self.kernel = NumpyKernel(decoded_cache_bytes=1 << 20)
        self.server = ExpertServer(
            self.kernel,
            find=self.find,
            send=self.send,
            clock=TrioClock(),
            settings=ServeSettings(**settings),
        )

    def find(self, peer: PeerId, tab: bytes) -> tuple | None:
        return (self.tab, self.held) if (peer, tab) == (PEER, TAB) else None

    def send(self, peer: PeerId, message: object) -> None:
        self.sent.append(message)

    async def ask(self, dispatch: Dispatch, peer: PeerId = PEER) -> list:
        self.sent.clear()
        self.server.dispatched(peer, dispatch)
        await self.server.idle()
        return list(self.sent)


@asynccontextmanager
async def running(**settings: int) -> AsyncIterator[Bench]:
    bench = Bench(**settings)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.server.run)
        yield bench
        nursery.cancel_scope.cancel()


def error_of(answers: list) -> OutputError:
    (answer,) = answers
    assert isinstance(answer, Output)
    return OutputError(answer.error)


@trio_test(autojump=True)
async def test_an_answer_has_the_experts_bytes_and_makes_leaves() -> None:
    async with running() as bench:
        dispatch = MODEL.dispatch(calls=((0, (0, 1)), (2, (1,))), n_rows=2)
        (answer,) = await bench.ask(dispatch)
        rows = MODEL.rows(2)
        expected = [
            bench.kernel.expert(bench.held.weights[ExpertId(1, e)], r, Profile.R16)
            for e, r in ((0, rows), (2, rows.take(np.array([1]))))
        ]
        assert answer.results == b"".join(expected)
        assert (answer.error, answer.n_rows_total) == (OutputError.OK, 3)
        assert bench.tab.n_open == 2
        assert bench.tab.accept([(0, 1)], 0.0) == 2
        assert bench.server.counts.servings == 2


@trio_test(autojump=True)
async def test_b32_a_repeat_gets_the_same_bytes_and_one_leaf() -> None:
    async with running() as bench:
        dispatch = MODEL.dispatch()
        (first,) = await bench.ask(dispatch)
        (again,) = await bench.ask(dispatch)
        assert again == first
        assert bench.tab.n_open == 1
        assert bench.server.counts.servings == 1


@trio_test(autojump=True)
async def test_b32_a_repeat_while_it_is_computed_is_answered_once() -> None:
    async with running() as bench:
        dispatch = MODEL.dispatch()
        for _ in range(5):
            bench.server.dispatched(PEER, dispatch)
        await bench.server.idle()
        assert len(bench.sent) == 1


@trio_test(autojump=True)
async def test_b32_a_job_of_20_s_asked_again_at_10_is_done_once(monkeypatch) -> None:
    async def slow(function, *arguments, **_: object) -> object:
        await trio.sleep(20)
        return function(*arguments)

    monkeypatch.setattr(trio.to_thread, "run_sync", slow)
    async with running() as bench:
        dispatch = MODEL.dispatch(deadline_ms=60_000)
        bench.server.dispatched(PEER, dispatch)
        await trio.sleep(10)
        bench.server.dispatched(PEER, dispatch)
        await bench.server.idle()
        assert len(bench.sent) == 1
        bench.server.dispatched(PEER, dispatch)  # and once more when it is done
        assert bench.sent[1] == bench.sent[0]
        assert bench.tab.n_open == bench.server.counts.servings == 1


@trio_test(autojump=True)
async def test_b39_numbers_used_before_or_another_request_of_a_number() -> None:
    async with running() as bench:
        await bench.ask(MODEL.dispatch(5))
        reused = MODEL.dispatch(5, request=77)
        assert error_of(await bench.ask(reused)) is OutputError.BAD_REQUEST
        other = MODEL.dispatch(6, request=1005)
        assert error_of(await bench.ask(other)) is OutputError.BAD_REQUEST
        assert bench.tab.n_open == 1


@trio_test(autojump=True)
async def test_b25_a_bad_dispatch_is_refused_and_reserves_nothing() -> None:
    async with running() as bench:
        good = MODEL.dispatch(0)
        for bad, error in (
            (replace(good, layer=3), OutputError.BAD_REQUEST),
            (replace(good, layer=0), OutputError.BAD_REQUEST),
            (MODEL.dispatch(calls=((4, (0,)),)), OutputError.BAD_REQUEST),
            (replace(good, profile=2), OutputError.BAD_REQUEST),
            (replace(good, price_epoch=9), OutputError.NO_GRANT),
            (replace(good, tab=b"othertab"), OutputError.NO_GRANT),
        ):
            assert error_of(await bench.ask(bad)) is error
        assert error_of(await bench.ask(good, STRANGER)) is OutputError.NO_GRANT
        assert bench.tab.n_open == 0
        assert error_of(await bench.ask(good)) is OutputError.OK


@trio_test(autojump=True)
async def test_no_grant_no_float_no_serving() -> None:
    async with running() as bench:
        calls = tuple((e, (0,)) for e in range(4))
        for at in range(25):
            dispatch = MODEL.dispatch(4 * at, calls)
            assert error_of(await bench.ask(dispatch)) is OutputError.OK
        over = MODEL.dispatch(100)
        assert error_of(await bench.ask(over)) is OutputError.NO_GRANT
        bench.tab = Tab(bench.money.terms(), Exposure())
        fresh = MODEL.dispatch(200)
        assert error_of(await bench.ask(fresh)) is OutputError.NO_GRANT


@trio_test(autojump=True)
async def test_arith_gives_the_risk_back() -> None:
    class Broken(NumpyKernel):
        def experts(self, *_: object) -> list[bytes]:
            raise NonFinite("not finite")

    bench = Bench()
    bench.server._kernel = Broken(decoded_cache_bytes=0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.server.run)
        dispatch = MODEL.dispatch()
        assert error_of(await bench.ask(dispatch)) is OutputError.ARITH
        assert error_of(await bench.ask(dispatch)) is OutputError.ARITH
        assert bench.tab.n_open == 0
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_what_waits_for_one_expert_is_computed_together_and_paid_apart() -> None:
    bench, n_calls = Bench(merged_macs=0), []

    class Noting(NumpyKernel):
        def experts(self, calls, rows, profile):
            n_calls.append(len(calls))
            return super().experts(calls, rows, profile)

    bench.server._kernel = Noting(decoded_cache_bytes=1 << 20)
    bench.server.dispatched(PEER, MODEL.dispatch(0))
    bench.server.dispatched(PEER, MODEL.dispatch(1, layer=2))
    bench.server.dispatched(PEER, MODEL.dispatch(2, deadline_ms=100))
    bench.server.dispatched(PEER, MODEL.dispatch(3, seed="other"))
    await trio.sleep(0.2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.server.run)
        await bench.server.idle()
        nursery.cancel_scope.cancel()
    assert n_calls == [1, 1]  # layer 1 for two dispatches, then layer 2
    answers = {m.request: m for m in bench.sent}
    assert answers.pop(1002).error is OutputError.OVERDUE
    for request, seed, layer in (
        (1000, "rows", 1),
        (1001, "rows", 2),
        (1003, "other", 1),
    ):
        weights = bench.held.weights[ExpertId(layer, 0)]
        alone = bench.kernel.expert(weights, MODEL.rows(1, seed), Profile.R16)
        assert answers[request].results == alone
    assert bench.tab.n_open == bench.server.counts.servings == 3
    assert bench.server.counts.merged == 2


@trio_test(autojump=True)
async def test_what_is_done_sooner_than_a_thread_begins_needs_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_threads, hop = [], trio.to_thread.run_sync

    async def noted(*asked: object, **options: object) -> object:
        n_threads.append(1)
        return await hop(*asked, **options)

    monkeypatch.setattr(trio.to_thread, "run_sync", noted)
    async with running() as bench:
        for first, mac_us, n_rows, n in (
            (0, 1e9, 1, 1),
            (1, 1e-9, 1, 1),
            (2, 1e9, 1, 2),
            (3, 1e-9, 2000, 3),  # of which only one is computed
        ):
            bench.server._mac_us = mac_us
            dispatch = MODEL.dispatch(first, n_rows=n_rows)
            assert error_of(await bench.ask(dispatch)) is OutputError.OK
            assert len(n_threads) == n
        assert 1e-9 < bench.server._mac_us < 1e9  # measured


@trio_test(autojump=True)
async def test_a_full_queue_says_busy() -> None:
    bench = Bench(max_jobs=2)
    for first in range(4):
        bench.server.dispatched(PEER, MODEL.dispatch(first))
    assert [m.request for m in bench.sent if isinstance(m, Busy)] == [1002, 1003]
    assert bench.sent[0].queued == 2
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.server.run)
        await bench.server.idle()
        assert error_of(await bench.ask(MODEL.dispatch(2))) is OutputError.OK
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_cancelling_works_while_it_waits() -> None:
    bench = Bench()
    bench.server.dispatched(PEER, MODEL.dispatch(0))
    bench.server.dispatched(PEER, MODEL.dispatch(1))
    bench.server.cancelled(STRANGER, 1000)
    bench.server.cancelled(PEER, 1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.server.run)
        await bench.server.idle()
        assert [m.request for m in bench.sent] == [1001]
        assert bench.tab.n_open == 1
        bench.server.cancelled(PEER, 1001)
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_b28_what_waited_too_long_is_overdue() -> None:
    bench = Bench()
    bench.server.dispatched(PEER, MODEL.dispatch(0, deadline_ms=100))
    await trio.sleep(0.2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.server.run)
        await bench.server.idle()
        assert error_of(bench.sent) is OutputError.OVERDUE
        assert bench.tab.n_open == 0
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_draining_finishes_what_it_took_and_repeats_old_answers() -> None:
    async with running() as bench:
        (first,) = await bench.ask(MODEL.dispatch(0))
        bench.server.dispatched(PEER, MODEL.dispatch(1))
        bench.server.is_draining = True
        await bench.server.idle()
        assert bench.sent[-1].error == OutputError.OK
        assert error_of(await bench.ask(MODEL.dispatch(2))) is OutputError.DRAINING
        assert await bench.ask(MODEL.dispatch(0)) == [first]


@trio_test(autojump=True)
async def test_b30_an_answer_that_finds_no_room_is_kept_for_the_repeat() -> None:
    async with running() as bench:
        send, bench.server._send = bench.server._send, _full
        bench.server.dispatched(PEER, MODEL.dispatch(0))
        await bench.server.idle()
        bench.server._send = send
        assert error_of(await bench.ask(MODEL.dispatch(0))) is OutputError.OK
        assert bench.server.counts.servings == 1


@trio_test
async def test_an_answer_that_cannot_be_sent_ends_nothing() -> None:
    async with running() as bench:
        send = bench.server._send
        bench.server._send = _too_large
        bench.server.dispatched(PEER, MODEL.dispatch(0))
        await bench.server.idle()
        bench.server._send = send
        assert error_of(await bench.ask(MODEL.dispatch(1))) is OutputError.OK


def _full(*_: object) -> None:
    raise SendQueueFull("full")


def _too_large(*_: object) -> None:
    raise UnsendableMessage("Output of 99 bytes")


@trio_test
async def test_real_threads_give_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    bench = Bench(n_threads=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.server.run)
        for first in range(12):
            bench.server.dispatched(PEER, MODEL.dispatch(first, seed=str(first)))
        await bench.server.idle()
        results = {m.request: m.results for m in bench.sent}
        weights = bench.held.weights[ExpertId(1, 0)]
        for first in range(12):
            rows = MODEL.rows(1, str(first))
            alone = bench.kernel.expert(weights, rows, Profile.R16)
            assert results[1000 + first] == alone
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_a_paused_server_refuses_without_fault_and_finishes_what_it_took() -> (
    None
):
    async with running() as bench:
        bench.server.dispatched(PEER, MODEL.dispatch(0))
        bench.server.paused = "paused battery: 43 %"
        bench.server.dispatched(PEER, MODEL.dispatch(1))
        await bench.server.idle()
        errors = sorted(answer.error for answer in bench.sent)
        assert errors == sorted([OutputError.OK, OutputError.DRAINING])
        assert bench.server.counts.refused == 0
        assert bench.tab.n_open == 1
        bench.server.paused = ""
        assert error_of(await bench.ask(MODEL.dispatch(1))) is OutputError.OK


@trio_test(autojump=True)
async def test_answers_keep_to_a_rate_and_the_queue_is_what_waits() -> None:
    async with running(max_jobs=2) as bench:
        (first,) = await bench.ask(MODEL.dispatch(0))
        n_bytes = len(first.results)
        bench.server.pace.allow(n_bytes / 10)
        await bench.ask(MODEL.dispatch(1))
        started = trio.current_time()
        bench.sent.clear()
        for at in range(2, 6):
            bench.server.dispatched(PEER, MODEL.dispatch(at))
        assert [type(each) for each in bench.sent] == [Busy, Busy]
        await bench.server.idle()
        # What the answer before took of the rate; then both go together.
        assert trio.current_time() - started == pytest.approx(10.0)


class SlowThreads:
    """Threads in which everything takes a second, and how many run at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = self._n = 0
        monkeypatch.setattr(trio.to_thread, "run_sync", self)

    async def __call__(self, function, *arguments: object, **_: object) -> object:
        self._n += 1
        self.most = max(self.most, self._n)
        await trio.sleep(1.0)
        self._n -= 1
        return function(*arguments)


@trio_test(autojump=True)
async def test_half_the_duty_rests_as_long_as_it_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    SlowThreads(monkeypatch)
    async with running() as bench:
        bench.server._mac_us = 1e9
        bench.server.duty = 0.5
        started = trio.current_time()
        for at in range(3):
            bench.server.dispatched(PEER, MODEL.dispatch(at))
        await bench.server.idle()
        # Two rests lie between three calls of a second each.
        assert trio.current_time() - started == pytest.approx(5.0)


@trio_test(autojump=True)
async def test_threads_may_be_fewer_than_at_the_start_and_as_many_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = SlowThreads(monkeypatch)
    async with running(n_threads=3) as bench:
        bench.server._mac_us = 1e9
        for n, (n_threads, n_at_once) in enumerate(((1, 1), (9, 3), (0, 1))):
            bench.server.use_threads(n_threads)
            threads.most = 0
            for at in range(6):
                bench.server.dispatched(PEER, MODEL.dispatch(6 * n + at))
            await bench.server.idle()
            assert threads.most == n_at_once


@trio_test(autojump=True)
async def test_it_tells_what_each_call_took() -> None:
    async with running() as bench:
        told: list[tuple[int, int]] = []
        bench.server.measured = lambda n_macs, took: told.append((n_macs, took))
        await bench.ask(MODEL.dispatch(0))
        ((n_macs, compute_us),) = told
        assert n_macs > 0
        assert compute_us >= 0
