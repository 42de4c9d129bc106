"""Canaries over a real kernel: right hashes, below work, within their time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.errors import SendQueueFull
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Canary, CanaryAnswer
from mobile_worker.messages.codec import encode_message
from mobile_worker.serve.canary import CanaryDesk, CanaryModel, CanaryParts
from mobile_worker.serve.canary_rows import canary_rows
from mobile_worker.servings.hashes import out_hash
from mobile_worker.servings.opened_rows import opened_bytes
from tests.support.inline_threads import inline_threads
from tests.support.small_model import N_EMBD, small_model
from tests.support.trio_test import trio_test

MODEL = small_model()
_, HELD = MODEL.held()
E = sorted(HELD.weights)
SEED = b"s" * 32


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


class TrioClock:
    def monotonic(self) -> float:
        return trio.current_time()

    def wall_us(self) -> int:
        return 0


class Bench:
    """A desk over the small model, and what it answered."""

    def __init__(self, **changes: object) -> None:
        self.sent: list[CanaryAnswer] = []
        self.n_seen = 0
        self.kernel = NumpyKernel(decoded_cache_bytes=1 << 20)
        values = {
            "kernel": self.kernel,
            "find": self.find,
            "send": self.sent.append,
            "clock": TrioClock(),
        }
        self.desk = CanaryDesk(CanaryParts(**(values | changes)))

    def find(self, name: bytes) -> CanaryModel | None:
        if name != MODEL.name:
            return None
        return CanaryModel(n_embd=N_EMBD, weights=HELD.weights.get)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.desk.run)
            yield
            nursery.cancel_scope.cancel()

    async def until(self, n: int) -> None:
        """Let time pass until so many canaries of this bench are answered."""
        for _ in range(10_000):
            if self.desk.n_answered >= self.n_seen + n:
                self.n_seen += n
                return
            await trio.sleep(0.01)
        raise AssertionError("no answer")

    async def answer(self, **changes: object) -> CanaryAnswer:
        """Ask for the first two experts, with changes; return what is said."""
        self.desk.asked(canary(**changes))
        await self.until(1)
        said = self.sent.pop()
        encode_message(said)
        return said


def canary(**changes: object) -> Canary:
    values: dict[str, object] = {
        "number": 7,
        "manifest_hash": MODEL.name,
        "experts": (E[0], E[1]),
        "profile": int(Profile.R32),
        "n_rows": 1,
        "within_ms": 10_000,
        "seed": SEED,
        "rows": b"",
    }
    return Canary(**(values | changes))  # type: ignore[arg-type]


def expected(
    expert: ExpertId, profile: Profile = Profile.R32, n_rows: int = 1
) -> bytes:
    kernel = NumpyKernel(decoded_cache_bytes=1 << 20)
    rows = canary_rows(SEED, expert, n_rows, N_EMBD)
    return out_hash(kernel.expert(HELD.weights[expert], rows, profile))


@trio_test(autojump=True)
async def test_each_expert_is_computed_on_its_own_rows() -> None:
    bench = Bench()
    async with bench.running():
        said = await bench.answer()
    assert said.number == 7
    assert said.experts == (E[0], E[1])
    assert said.hashes == expected(E[0]) + expected(E[1])
    assert said.reason == ""


@trio_test(autojump=True)
async def test_rows_given_are_those_that_are_computed() -> None:
    rows = canary_rows(SEED, E[1], 3, N_EMBD)
    bench = Bench()
    async with bench.running():
        said = await bench.answer(
            seed=b"",
            rows=opened_bytes(rows),
            n_rows=3,
            experts=(E[1],),
            profile=int(Profile.R8),
        )
    assert said.hashes == expected(E[1], Profile.R8, 3)


@trio_test(autojump=True)
async def test_what_is_not_held_is_left_out_with_a_reason() -> None:
    bench = Bench()
    async with bench.running():
        said = await bench.answer(experts=(ExpertId(2, 99), E[0]))
        assert said.experts == (E[0],)
        assert said.reason == "1 experts are not held here"
        said = await bench.answer(manifest_hash=b"x" * 32)
        assert said.experts == ()
        assert "not held" in said.reason


@trio_test(autojump=True)
@pytest.mark.parametrize(
    "changes",
    [
        {"profile": 9},
        {"n_rows": 0},
        {"n_rows": 65},
        {"seed": b"", "rows": b"no rows at all"},
        {"seed": b"", "rows": b"\x80" * (N_EMBD + 8)},
        {"seed": b"", "rows": b"\xff" * (4 * N_EMBD)},
    ],
)
async def test_absurd_canaries_are_refused_in_one_line(changes) -> None:
    bench = Bench()
    async with bench.running():
        said = await bench.answer(**changes)
        assert said.experts == ()
        assert said.reason.startswith("the canary is refused")
        assert "\n" not in said.reason
        assert (await bench.answer()).experts == (E[0], E[1])


@trio_test(autojump=True)
async def test_a_result_that_is_not_finite_is_the_same_everywhere() -> None:
    class Overflowing(NumpyKernel):
        def expert(self, *_: object) -> bytes:
            raise NonFinite("too large")

    bench = Bench(kernel=Overflowing())
    async with bench.running():
        said = await bench.answer(experts=(E[0],))
    assert said.hashes == out_hash(b"")


@trio_test(autojump=True)
async def test_work_goes_first_for_half_of_the_time() -> None:
    async def never() -> None:
        await trio.sleep_forever()

    bench = Bench(idle=never)
    async with bench.running():
        start = trio.current_time()
        said = await bench.answer()
        assert trio.current_time() - start == pytest.approx(5.0, abs=0.1)
        assert said.experts == (E[0], E[1])


@trio_test(autojump=True)
async def test_a_canary_ends_with_its_time_and_says_what_was_done(monkeypatch) -> None:
    async def slow(function, *arguments, **_: object) -> object:
        await trio.sleep(6)
        return function(*arguments)

    monkeypatch.setattr(trio.to_thread, "run_sync", slow)
    bench = Bench()
    async with bench.running():
        said = await bench.answer(experts=tuple(E[:4]))
    assert said.experts == tuple(E[:2])
    assert "no time left" in said.reason


@trio_test(autojump=True)
async def test_a_paused_worker_says_so_and_computes_nothing() -> None:
    bench = Bench(refusal=lambda: "paused by its user")
    async with bench.running():
        said = await bench.answer()
    assert (said.experts, said.reason) == ((), "paused by its user")


@trio_test(autojump=True)
async def test_a_flood_is_answered_at_once_and_ends_nothing() -> None:
    bench = Bench()
    for _ in range(20):
        bench.desk.asked(canary())
    assert [said.reason for said in bench.sent] == ["too many canaries wait"] * 12
    async with bench.running():
        await bench.until(20)
    assert sum(said.reason == "" for said in bench.sent) == 8


@trio_test(autojump=True)
async def test_an_answer_that_cannot_be_sent_is_dropped() -> None:
    def full(_: CanaryAnswer) -> None:
        raise SendQueueFull("full")

    bench = Bench(send=full)
    async with bench.running():
        bench.desk.asked(canary())
        await bench.until(1)
