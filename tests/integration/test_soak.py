"""Many requests at a real `serve`: what they took is given back, every time.

A thousand clients that vanish, in the queue, in prefill, in decoding, with a stream or
without, closing one direction or both, leave sockets, threads and slots as they were;
ten thousand short requests, a day of them in miniature, leave memory as it was.
"""

import dataclasses
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from p2pmoe.api.app import ApiParts
from p2pmoe.api.server import ListenAddress, serve_api
from p2pmoe.text.tokenizer import load_tokenizer
from tests.support.api import api_parts, small_model
from tests.support.backbone_model import POCKET, local_backbone, local_side
from tests.support.command_line import Running
from tests.support.processes import Footprint, footprint
from tests.support.raw_clients import answer, ask, until
from tests.support.trio_test import trio_test

N_CANCELLED, N_SHORT = 1000, 10_000
N_AT_ONCE = 40  # clients at a time: more than there are slots
MAX_GROWTH_BYTES = 8 << 20
WITHIN_S = 60
LONG = {"max_tokens": 400, "temperature": 1.0, "seed": 1}
DEEP = {"prompt": [5] * 600, **LONG}
WORD = {"prompt": [7, 8, 9], **LONG}


class Serving:
    """A running `serve` without a network."""

    def __init__(self, folder: Path) -> None:
        self.process = Running(
            folder,
            *("serve", "pocket", "--listen", "127.0.0.1:0", "--context", "1024"),
            *("--data", str(folder / "data")),
        )
        self.port: int = self.process.report["listen"][1]
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=60
        )
        self.until(lambda: self.client.get("/readyz").status_code == 200)

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            assert self.process.is_running, self.process.log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def metric(self, name: str) -> float:
        page = self.client.get("/metrics").text.splitlines()
        return sum(float(x.rpartition(" ")[2]) for x in page if x.startswith(name))

    def footprint(self) -> Footprint:
        return footprint(self.process.process.pid)

    def is_idle(self) -> bool:
        names = ("active", "waiting", "parked")
        return not any(self.metric(f"p2pmoe_requests_{name}") for name in names)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    serving.client.close()
    serving.process.kill()


# Clients that vanish.


async def at_once(stream: trio.SocketStream) -> None:
    """It waits, or has just begun."""
    await ask(stream, {"stream": True, **WORD})


async def in_prefill(stream: trio.SocketStream) -> None:
    await ask(stream, {"stream": True, **DEEP})
    await trio.sleep(0.005)


async def in_decoding(stream: trio.SocketStream) -> None:
    await ask(stream, {"stream": True, **WORD})
    await until(stream, b"data: ")


async def without_a_stream(stream: trio.SocketStream) -> None:
    await ask(stream, WORD)
    await trio.sleep(0.02)


async def half_closed(stream: trio.SocketStream) -> None:
    await ask(stream, {"stream": True, **WORD})
    await until(stream, b"data: ")
    await stream.send_eof()
    with trio.move_on_after(5):
        await until(stream, b"never")


PHASES = (at_once, in_prefill, in_decoding, without_a_stream, half_closed)


async def vanish(port: int, leave: Callable[[trio.SocketStream], Awaitable[None]]):
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await leave(stream)


async def many(n: int, n_at_once: int, one: Callable[[int], Awaitable[None]]) -> None:
    """Run `one(number)` n times, some at a time."""
    numbers = iter(range(n))

    async def some() -> None:
        for number in numbers:
            await one(number)

    async with trio.open_nursery() as nursery:
        for _ in range(n_at_once):
            nursery.start_soon(some)


def vanish_often(serving: Serving, n: int) -> None:
    async def one(number: int) -> None:
        await vanish(serving.port, PHASES[number % len(PHASES)])

    trio.run(many, n, N_AT_ONCE, one)
    serving.until(serving.is_idle)


def is_no_more(after: Footprint, before: Footprint) -> bool:
    """Whether sockets and threads are back; trio keeps idle threads for ten seconds."""
    return after.n_sockets <= before.n_sockets and after.n_threads <= before.n_threads


def assert_nothing_is_left(serving: Serving, n: int) -> None:
    vanish_often(serving, 2 * N_AT_ONCE)  # threads and pools are there from now on
    before = serving.footprint()
    vanish_often(serving, n)
    serving.until(lambda: is_no_more(serving.footprint(), before))
    assert serving.metric('p2pmoe_kv_bytes{use="granted"}') == 0
    asked = serving.client.post(
        "/v1/completions", json={"prompt": "once", "max_tokens": 3, "temperature": 0}
    )
    assert asked.status_code == 200


@pytest.mark.slow
def test_a_thousand_clients_that_vanish_leave_nothing_behind(serving: Serving) -> None:
    assert_nothing_is_left(serving, N_CANCELLED)


# A day in miniature.


def ask_often(serving: Serving, n: int, first: int = 0) -> None:
    """Ask short requests on connections that are kept, each with its own seed."""
    numbers = iter(range(first, first + n))

    async def one_client() -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", serving.port)
        async with stream:
            for number in numbers:
                prompt = [5 + number % 4000, 7 + number // 4000]
                await ask(stream, {"prompt": prompt, "max_tokens": 1, "seed": number})
                status, body = await answer(stream)
                assert status == 200, body

    async def clients() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(one_client)

    trio.run(clients)
    serving.until(serving.is_idle)


def assert_memory_is_flat(serving: Serving, n: int) -> None:
    n_first = n // 5
    ask_often(serving, n_first)  # caches of all kinds are full from now on
    before = serving.footprint()
    ask_often(serving, n - n_first, n_first)
    after = serving.footprint()
    assert after.resident_bytes - before.resident_bytes < MAX_GROWTH_BYTES
    serving.until(lambda: is_no_more(serving.footprint(), before))


@pytest.mark.slow
def test_memory_is_flat_over_ten_thousand_requests(serving: Serving) -> None:
    assert_memory_is_flat(serving, N_SHORT)


# What only the process itself can count.


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


@asynccontextmanager
async def listening(parts: ApiParts):
    async with trio.open_nursery() as nursery:
        address = await nursery.start(serve_api, parts, ListenAddress("127.0.0.1", 0))
        yield address.port
        nursery.cancel_scope.cancel()


@trio_test
async def test_tasks_are_as_many_as_before() -> None:
    side = local_side(POCKET)
    model = dataclasses.replace(
        small_model(n_context=1024), tokenizer=load_tokenizer(side.model_file)
    )
    async with local_backbone(side, max_batch=4) as backbone:
        parts = api_parts(backbone.engine, model=model)
        async with listening(parts) as port:

            async def one(number: int) -> None:
                await vanish(port, PHASES[number % len(PHASES)])

            n_tasks = tasks()
            await many(48, 12, one)
            with trio.fail_after(WITHIN_S):
                await backbone.engine.idle()
                while tasks() > n_tasks:  # noqa: ASYNC110 - nothing tells
                    await trio.sleep(0.01)
            assert backbone.engine.n_active == backbone.engine.n_waiting == 0
