"""The whole network at a distance: workers 20 and 100 ms away from everyone else.

Relay, backbone and three edge workers are processes of their own on loopback; the
workers reach the relay through a proxy that holds every byte back (injector). The
same network, placement and requests are measured at each distance in turn, the proxy's
delay zero for the baseline, so that distance alone differs. The disk tier is off: what
is not at hand comes from a worker.

A = round trips per committed token (design, 08). A token then takes at least A x RTT:
`share of a token's time` is how much of it that is, `trip` what one round trip really
takes beyond the same trip without delay. The requests must give the same tokens at
every distance, or the benchmark fails.
"""

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

import trio

from p2pmoe.demo.network import api_of, start_backbone, wait_until_ready
from p2pmoe.local_network.processes import Stage
from p2pmoe.network.invite import read_invite
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.network_processes import (
    READY_WITHIN_S,
    ask,
    start_relay,
    start_worker,
    through_port,
)
from tests.support.injector.conditions import NEAR, distance
from tests.support.injector.proxy import Injector

__all__ = ["run"]

_RAM = "42M"  # about a third of the experts at hand
_WORKERS, _WORKER_MEMORY = ("edge-1", "edge-2", "edge-3"), "24M"
_RTTS_MS = (0, 20, 100)
_PROMPT = "It was a dark night, and the old man"
_SEEDS = (7, 8, 9)  # a round each
_N_TOKENS, _N_SETTLING, _N_LONG = 12, 2, 96
_A_TARGET = 2.3  # novel text, without draft-guided prefetch


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One request: its tokens, and what each after the first has cost."""

    tokens: tuple[int, ...]
    token_s: float
    trips: float  # per token

    @property
    def trip_s(self) -> float:
        return self.token_s / self.trips


async def _generate(url: str, seed: int, n_tokens: int) -> _Run:
    body = {
        "prompt": _PROMPT,
        "max_tokens": n_tokens,
        "temperature": 0.8,
        "seed": seed,
    }
    answer = await ask(url, body)
    told = answer["p2pmoe"]
    n_passes = len(told["tokens"]) - 1  # the first token is the prefill's
    return _Run(
        tokens=tuple(told["tokens"]),
        token_s=answer["timings"]["decode_s"] / n_passes,
        trips=told["round_trips"] / n_passes,
    )


async def _measure() -> tuple[dict[int, list[_Run]], _Run]:
    """Return the runs by RTT in ms, and one long run without delay."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        async with trio.open_nursery() as nursery:
            try:
                url, injector = await _raise(stage, nursery)
                long = await _generate(url, _SEEDS[0], _N_LONG)
                runs: dict[int, list[_Run]] = {rtt: [] for rtt in _RTTS_MS}
                for seed in _SEEDS:
                    for rtt in _RTTS_MS:
                        injector.change(distance(rtt / 2000))
                        await _generate(url, seed, _N_SETTLING)
                        runs[rtt].append(await _generate(url, seed, _N_TOKENS))
                injector.change(NEAR)
            finally:
                await stage.stop_all()
            nursery.cancel_scope.cancel()
    return runs, long


async def _raise(stage: Stage, nursery: trio.Nursery) -> tuple[str, Injector]:
    """Start everything without delay; return the API's URL once all is covered."""
    invite = await start_relay(stage)
    relay = read_invite(invite).relay
    injector = Injector(relay.host, relay.port)
    port = await nursery.start(injector.serve)
    options = ["--invite", str(invite), "--disk", "off"]
    backbone = await start_backbone(stage, "backbone", options, _RAM)
    distant = through_port(invite, port)
    for name in _WORKERS:
        worker = await start_worker(stage, name, distant, _WORKER_MEMORY)
        await worker.ready(READY_WITHIN_S)
    api = await api_of(backbone)
    await wait_until_ready(api, backbone, lambda _label, _share: None)
    await api.aclose()
    return api.url, injector


def _check(runs: dict[int, list[_Run]]) -> None:
    for near, *others in zip(*(runs[rtt] for rtt in _RTTS_MS), strict=True):
        if any(near.tokens != other.tokens for other in others):
            raise RuntimeError("the tokens depend on the distance")


def _figures_at(rtt: int, far: Sequence[_Run], near: Sequence[_Run]) -> list[Figure]:
    rtt_s = rtt / 1000
    return [
        figure(
            f"decode at {rtt} ms RTT",
            "tokens/s",
            [1 / one.token_s for one in far],
            baseline=[1 / one.token_s for one in near],
        ),
        figure(
            f"A at {rtt} ms RTT, novel text, no drafts",
            "trips/token",
            [one.trips for one in far],
            baseline=[one.trips for one in near],
            at_most=_A_TARGET,
        ),
        figure(
            f"share of a token's time that is A x RTT, {rtt} ms",
            "%",
            [100 * one.trips * rtt_s / one.token_s for one in far],
        ),
        figure(
            f"what a trip takes beyond one without delay, {rtt} ms",
            "ms",
            [
                1000 * (one.token_s - beside.token_s) / one.trips
                for one, beside in zip(far, near, strict=True)
            ],
            baseline=[float(rtt)],
        ),
    ]


def run() -> list[Figure]:
    """Measure; some 60 seconds where nothing else runs."""
    runs, long = trio.run(_measure)
    _check(runs)
    near = runs[0]
    return [
        figure(
            "decode through the relay, no delay",
            "tokens/s",
            [1 / one.token_s for one in near],
        ),
        figure(
            f"A over {_N_LONG} tokens, no delay, novel text, no drafts",
            "trips/token",
            [long.trips],
            at_most=_A_TARGET,
        ),
        *(found for rtt in _RTTS_MS[1:] for found in _figures_at(rtt, runs[rtt], near)),
    ]
