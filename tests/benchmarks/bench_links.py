"""A network whose hubs are near: direct links of 0.5 ms there and back, beside none.

Relay, backbone, two hubs on direct links and two edge workers behind the relay are
processes of their own on loopback; between backbone and hubs stands a proxy (nearby)
that holds bytes back or does not, round by round, so that the distance alone differs.
The backbone has a third of the experts at hand and its disk tier is off. Requests come
eight at a time, as for one shared backbone, and one at a time. The tokens must be the
same at both distances, or the benchmark fails.
"""

import socket
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import trio

from p2pmoe.demo.network import api_of, start_backbone, wait_until_ready
from p2pmoe.local_network.processes import Stage
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.network_processes import (
    READY_WITHIN_S,
    ask,
    start_relay,
    start_worker,
)
from tests.support.injector.nearby import Nearby, nearby, round_trip_s

__all__ = ["run"]

_ONE_WAY_S = 0.0002  # a sleep of it ends some 0.05 ms late
_RAM, _WORKER_MEMORY = "42M", "24M"
_HUBS, _EDGES = ("hub-1", "hub-2"), ("edge-1", "edge-2")
_PROMPTS = (
    "It was a dark night, and the old man",
    "She opened the letter and read",
    "In the year of the great storm",
    "The captain looked at the sea and said",
    "Once more the bell of the church",
    "My dear friend, I must tell you",
    "On the third day they came to a river",
    "There is no reason to believe that",
)
_N_TOKENS, _ROUNDS = 32, 7
_AT_LEAST = 0.9


async def _raise(stage: Stage, proxies: ExitStack) -> tuple[str, list[Nearby]]:
    """Start everything; return the API's URL once all is covered, and the proxies."""
    invite = await start_relay(stage)
    options = ["--invite", str(invite), "--disk", "off"]
    backbone = await start_backbone(stage, "backbone", options, _RAM)
    between = []
    for name in _HUBS:
        port = _free_port()
        between.append(proxies.enter_context(nearby(port)))
        address = f"127.0.0.1:{between[-1].port}"
        hub = await start_worker(
            stage, name, invite, _WORKER_MEMORY, listen=port, advertise=address
        )
        await hub.ready(READY_WITHIN_S)
    for name in _EDGES:
        edge = await start_worker(stage, name, invite, _WORKER_MEMORY)
        await edge.ready(READY_WITHIN_S)
    api = await api_of(backbone)
    await wait_until_ready(api, backbone, lambda _label, _share: None)
    await api.aclose()
    return api.url, between


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def _round(url: str, n_streams: int) -> tuple[float, list[tuple[int, ...]]]:
    """Return tokens a second of so many requests at once, and their tokens."""
    tokens: dict[int, tuple[int, ...]] = {}

    async def one(number: int) -> None:
        body = {
            "prompt": _PROMPTS[number],
            "max_tokens": _N_TOKENS,
            "temperature": 0.8,
            "seed": number,
        }
        tokens[number] = tuple((await ask(url, body))["p2pmoe"]["tokens"])

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for number in range(n_streams):
            nursery.start_soon(one, number)
    took_s = time.perf_counter() - began
    found = [tokens[number] for number in range(n_streams)]
    return sum(map(len, found)) / took_s, found


async def _rounds(
    url: str, between: list[Nearby], n_streams: int
) -> tuple[list[float], list[float]]:
    """Return tokens a second near, and on loopback."""
    rates: dict[float, list[float]] = {0.0: [], _ONE_WAY_S: []}
    expected = None
    for number in range(_ROUNDS + 1):
        for one_way_s, found in rates.items():
            for proxy in between:
                proxy.one_way_s = one_way_s
            rate, tokens = await _round(url, n_streams)
            expected = expected or tokens
            if tokens != expected:
                raise RuntimeError("the tokens depend on the distance")
            if number:  # the first warms caches
                found.append(rate)
    return rates[_ONE_WAY_S], rates[0.0]


async def _measure() -> list[Figure]:
    found = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as proxies:
        stage = Stage(Path(folder))
        try:
            url, between = await _raise(stage, proxies)
            for n_streams in (len(_PROMPTS), 1):
                near, loopback = await _rounds(url, between, n_streams)
                name = f"decode, hubs 0.5 ms away, {n_streams} streams"
                ratios = [a / b for a, b in zip(near, loopback, strict=True)]
                found.append(figure(name, "tokens/s", near, baseline=loopback))
                at_least = _AT_LEAST if n_streams > 1 else None
                beside = f"{name}, over loopback"
                found.append(figure(beside, "x", ratios, at_least=at_least))
        finally:
            await stage.stop_all()
    return found


def run() -> list[Figure]:
    """Measure; some 60 seconds where nothing else runs."""
    trip_ms = 1000 * (round_trip_s(_ONE_WAY_S) - round_trip_s(0.0))
    return [
        figure("what the proxy adds to a round trip", "ms", [trip_ms]),
        *trio.run(_measure),
    ]
