"""Fault B20 at the real processes: a client that vanishes, in each phase.

Whatever it waited for, nothing is done for it any more: no slot is held, no step is
made, no worker is asked. Others get what they would have got. Promised are one step or
two seconds, in which an idle machine makes a hundred steps: here steps are counted, so
that a busy one is not timed.
"""

import json
import select
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from p2pmoe.demo.facts import Metrics
from tests.support.generations import PROMPTS, texts_of_a_single_process
from tests.support.networks import Network, network_running
from tests.support.trio_test import trio_test

WITHIN_S = 30.0  # gives up on what goes on for ever
LEAVES_WITHIN_S = 10.0  # the queue; no other ends so soon
MOST_STEPS = 50  # after a client has left
QUIET_S = 1.0
N_STREAMS = 36  # more than there are slots
LONG = {"max_tokens": 1500, "temperature": 1.0, "seed": 3}
WORD = {"prompt": "The sea was", **LONG}
DEEP = {"prompt": "The old man and the sea. " * 150, **LONG}
MAX_TRIES = 5

Leave = Callable[[trio.SocketStream], Awaitable[None]]


async def close(stream: trio.SocketStream) -> None:
    await stream.aclose()


async def half_close(stream: trio.SocketStream) -> None:
    await stream.send_eof()


async def ask(port: int, **body: object) -> trio.SocketStream:
    content = json.dumps(body).encode()
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    head = (
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    await stream.send_all(head.encode() + content)
    return stream


async def read_events(stream: trio.SocketStream, n: int) -> None:
    seen = b""
    while seen.count(b"data: ") < n:
        part = await stream.receive_some(1 << 16)
        assert part, seen
        seen += part


def holds(n_active: int, n_waiting: int = 0) -> Callable[[Metrics], bool]:
    return lambda metrics: (
        metrics.total("p2pmoe_requests_active") == n_active
        and metrics.total("p2pmoe_requests_waiting") == n_waiting
    )


def n_steps(metrics: Metrics) -> float:
    return metrics.total("p2pmoe_steps_total")


async def all_is_quiet(network: Network) -> None:
    """Soon nothing is held, and nothing is computed any more."""
    left = await network.metrics()
    now = await network.until(holds(0), "no slot is held", within_s=WITHIN_S)
    with trio.fail_after(WITHIN_S):  # answers that were under way come and are paid
        while True:
            before = now
            await trio.sleep(QUIET_S)
            now = await network.metrics()
            if is_at_rest(before, now):
                break
    assert n_steps(now) - n_steps(left) <= MOST_STEPS


def is_at_rest(before: Metrics, now: Metrics) -> bool:
    """Whether nothing was computed in between, and nothing is under way."""
    counts = ("p2pmoe_steps_total", "p2pmoe_worker_calls_total")
    under_way = ("p2pmoe_dispatches_in_flight", "p2pmoe_api_requests_active")
    stands = all(now.total(name) == before.total(name) for name in counts)
    return stands and not any(now.total(name) for name in under_way)


@asynccontextmanager
async def proxy(port: int) -> AsyncIterator[int]:
    """A proxy that ends its own connection when the client's ends."""

    async def serve(client: trio.SocketStream) -> None:
        server = await trio.open_tcp_stream("127.0.0.1", port)
        async with client, server, trio.open_nursery() as nursery:

            async def copy(source: trio.SocketStream, sink: trio.SocketStream) -> None:
                try:
                    async for part in source:
                        await sink.send_all(part)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    pass
                nursery.cancel_scope.cancel()

            nursery.start_soon(copy, client, server)
            nursery.start_soon(copy, server, client)

    async with trio.open_nursery() as nursery:
        listening = partial(trio.serve_tcp, serve, 0, host="127.0.0.1")
        (listener,) = await nursery.start(listening)
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def at_a_token(network: Network, port: int, leave: Leave) -> None:
    stream = await ask(port, **WORD, stream=True)
    await read_events(stream, 10)
    await leave(stream)
    await all_is_quiet(network)
    await stream.aclose()


async def without_a_stream(network: Network, port: int) -> None:
    stream = await ask(port, **WORD)
    await network.until(holds(1), "it runs", within_s=WITHIN_S)
    await close(stream)
    await all_is_quiet(network)


def has_come(stream: trio.SocketStream) -> bool:
    """Whether an answer has begun: with its first token."""
    return bool(select.select([stream.socket], [], [], 0)[0])


async def in_prefill(network: Network, port: int) -> None:
    """Leave before the first token; with another prompt, where that came sooner."""
    for number in range(MAX_TRIES):
        before = n_tokens(await network.metrics())
        prompt = f"Chapter {number}. {DEEP['prompt']}"
        stream = await ask(port, **(DEEP | {"prompt": prompt}), stream=True)
        await network.until(holds(1), "it runs", within_s=WITHIN_S)
        was_in_prefill = not has_come(stream)
        await close(stream)
        await all_is_quiet(network)
        if was_in_prefill:
            assert n_tokens(await network.metrics()) <= before + 1
            return
    raise AssertionError("no prompt was long enough to leave in its prefill")


def n_tokens(metrics: Metrics) -> float:
    return metrics.total("p2pmoe_tokens_total", kind="completion")


async def in_the_queue(network: Network, port: int) -> None:
    """Fill all slots, and leave the queue; then the slots, which one who stays gets."""
    streams = [await ask(port, **WORD, stream=True) for _ in range(N_STREAMS)]

    def wait(n: int) -> Callable[[Metrics], bool]:
        """Of `n` requests all have come, and some wait."""
        return lambda metrics: (
            metrics.total("p2pmoe_requests_waiting") > 0
            and metrics.total("p2pmoe_requests_active")
            + metrics.total("p2pmoe_requests_waiting")
            == n
        )

    await network.until(wait(N_STREAMS), "all have come", within_s=WITHIN_S)
    await close(streams.pop())
    await network.until(wait(N_STREAMS - 1), "one has left", within_s=LEAVES_WITHIN_S)
    staying = network.generate(PROMPTS[0])
    for stream in streams:
        await close(stream)
    assert (await staying.finished()).text == texts_of_a_single_process()[PROMPTS[0]]
    await all_is_quiet(network)


@pytest.mark.slow
@trio_test
async def test_b20_a_client_that_vanishes_frees_everything(tmp_path: Path) -> None:
    await trio.to_thread.run_sync(texts_of_a_single_process)
    async with network_running(tmp_path, apart=False) as network:
        port = int(network.api.url.rpartition(":")[2])
        await at_a_token(network, port, close)
        await at_a_token(network, port, half_close)
        await without_a_stream(network, port)
        await in_prefill(network, port)
        async with proxy(port) as outside:
            await at_a_token(network, outside, close)
        await in_the_queue(network, port)
        text = (await network.answer(PROMPTS[1])).text
        assert text == texts_of_a_single_process()[PROMPTS[1]]
