"""The whole network at a distance: few round trips, measured arm by arm.

    make bench-wan
    BENCH_WAN=trips,faults make bench-wan      # some parts: see PARTS

Relay, backbones and workers are processes of their own on loopback; the workers reach
the relay through a proxy that holds every byte back (injector). Each arm is a backbone
of its own with the same half of the experts at hand, the hotter half of each layer; the
workers hold the rest, and the disk tier is off. Arms are asked in turn, request by
request, and must give the same tokens, or the benchmark fails.

    speeds      all arms at each distance beside naive dispatch, on the pocket model
    trips       A over the last half of 2,048 tokens at 20 and 100 ms
    workloads   auto beside no speculation, on five kinds of text
    large       some arms on a synthetic model of 0.25 GB
    streams     sixteen streams beside one; a long prompt over the office link; overlap
    faults      a worker that stalls; workers that are killed

With llama.cpp's RPC back-end built (llama_rpc), `speeds` measures that beside ours: all
its experts on its server, at the same distance, all else here.
"""

import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import trio

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.backbone.warm_up import WARM_UP_TEXT
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.model_file import open_model
from tests.benchmarks import wan_workloads
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.llama_rpc import HOW_TO_BUILD, is_built, rpc_rates
from tests.benchmarks.synthetic_moe import POCKET, SyntheticMoe, write_moe
from tests.benchmarks.wan_arms import (
    ARMS,
    NOVEL,
    Arm,
    Workload,
    draftable,
    novel,
    openings,
)
from tests.benchmarks.wan_faults import STALLING, Killing, hedging
from tests.benchmarks.wan_network import WorkerGroup, wan_network
from tests.benchmarks.wan_placement import Halves, halves_of
from tests.benchmarks.wan_speeds import (
    Distance,
    Speeds,
    measure_speeds,
    speed_figures,
)
from tests.benchmarks.wan_streams import (
    long_prompt,
    overlap,
    streams,
    traffic_figures,
)
from tests.benchmarks.wan_trips import count_trips, trip_figures
from tests.benchmarks.worker_merging import merging_figures
from tests.support.injector.conditions import NEAR, OFFICE, distance

__all__ = ["PARTS", "notes", "run"]

_N_LANES, _BATCH = 2, 16
_N_ROUNDS = 3
_N_KILLS = 20
_OVERLAP_ROUNDS = 9  # short ones, of differences
_RPC_ROUNDS = 3
_RPC_TARGET = 5.0
_BESIDE_RPC = ("auto", "auto+prefetch", "auto, placed", "auto+prefetch, placed")
_LONG_TIMES = 8  # some 1,500 tokens
_CHUNK_CHARS = 150  # fewer tokens than a chunk
_LARGE = SyntheticMoe(
    format=Format.Q4_0, n_layer=9, n_embd=1024, n_ff=512, skew=1.0, n_context=2048
)


def _asked(n_requests: int, n_tokens: int) -> tuple[Workload, ...]:
    return draftable(n_requests, n_tokens), novel(n_requests, n_tokens)


_DISTANCES = (
    Distance(name="0 ms", link=NEAR, workloads=_asked(2, 64)),
    Distance(name="3.4 ms", link=distance(0.0017), workloads=_asked(2, 64)),
    Distance(name="office link", link=OFFICE, workloads=_asked(2, 64)),
    Distance(name="20 ms", link=distance(0.01), workloads=_asked(2, 48)),
    Distance(
        name="100 ms",
        link=distance(0.05),
        workloads=_asked(1, 48),
        profiles=("r16",),  # how results are coded saves no round trip
    ),
)
_WIDE = SyntheticMoe(
    format=Format.Q4_0, n_layer=5, n_embd=2048, n_ff=256, n_context=2048
)  # long rows, half of whose experts are away: bytes take longer than computing
_LARGE_ARMS = ("naive", "plain", "ngram", "self", "auto", "auto+prefetch")


def _arms(*names: str) -> list[Arm]:
    return [arm for arm in ARMS if not names or arm.name in names]


def _halves(path: Path) -> Halves:
    tokenizer = load_tokenizer(open_model(path))
    prompts = [tokenizer.encode(text, bos=True) for text in openings()]
    return halves_of(path, prompts, n_lanes=_N_LANES, batch=_BATCH)


def _workers(halves: Halves, n_backbones: int, *names: str) -> WorkerGroup:
    memory = (n_backbones + 1) * 2 * halves.total_bytes
    return WorkerGroup(names=names, memory_bytes=memory)


def _long() -> str:
    return f"{WARM_UP_TEXT} " * _LONG_TIMES


def _one_chunk() -> str:
    return WARM_UP_TEXT[:_CHUNK_CHARS]


async def _speeds(halves: Halves) -> list[Figure]:
    arms = _arms()
    group = _workers(halves, len(arms), "edge-1", "edge-2", "edge-3")
    async with wan_network(halves, [group]) as network:
        speeds = await measure_speeds(network, arms, _DISTANCES, _N_ROUNDS)
    found = speed_figures(speeds, _DISTANCES, arms)
    plain = {"r16": "plain", "r8": "plain r8", "r32": "plain r32"}
    found += traffic_figures(
        {name: speeds.of("0 ms", NOVEL, arm) for name, arm in plain.items()}
    )
    return found + await _beside_llama(speeds)


async def _beside_llama(speeds: Speeds) -> list[Figure]:
    """Ours over llama.cpp's RPC back-end, at the distances that have a target."""
    found = []
    for each in _DISTANCES if is_built() else ():
        far = each.name in {"20 ms", "100 ms"}
        if not far and each.name != "0 ms":
            continue
        n_tokens = {"0 ms": 64, "20 ms": 16, "100 ms": 4}[each.name]
        rates = await rpc_rates(POCKET, each.link, n_tokens, _RPC_ROUNDS)
        for workload in each.workloads:
            for name in _BESIDE_RPC:
                ours = [run.rate for run in speeds.of(each.name, workload.name, name)]
                if ours:
                    ratios = [a / b for a, b in zip(ours, rates, strict=True)]
                    found.append(
                        figure(
                            f"{workload.name}, {each.name}: {name}, over llama.cpp RPC",
                            "x",
                            ratios,
                            at_least=_RPC_TARGET if far else None,
                        )
                    )
        found.append(figure(f"llama.cpp RPC, {each.name}", "tokens/s", rates))
    return found


async def _trips(halves: Halves) -> list[Figure]:
    arms = _arms(
        "naive", "auto", "auto+prefetch", "auto, placed", "auto+prefetch, placed"
    )
    found = []
    for name, link in (("20 ms", distance(0.01)), ("100 ms", distance(0.05))):
        group = _workers(halves, 2 * len(arms), "edge-1", "edge-2", "edge-3")
        async with wan_network(halves, [group]) as network:
            network.change(link)
            counted = await count_trips(network, arms)
            found += trip_figures(name, counted, compares_rates=name == "100 ms")
    return found


async def _workloads(halves: Halves) -> list[Figure]:
    arms = _arms("plain", "auto")
    group = _workers(halves, len(arms), "edge-1", "edge-2")
    async with wan_network(halves, [group]) as network:
        return await wan_workloads.measure(network, arms)


async def _large(_: Halves) -> list[Figure]:
    arms = _arms(*_LARGE_ARMS)
    distances = [
        Distance(name=f"{each.name}, large", link=each.link, workloads=_asked(1, 24))
        for each in _DISTANCES
        if each.name in {"20 ms", "100 ms", "office link"}
    ]
    with tempfile.TemporaryDirectory() as folder:
        halves = _halves(write_moe(Path(folder) / "large.gguf", _LARGE))
        async with wan_network(
            halves, [_workers(halves, len(arms), "edge-1", "edge-2")]
        ) as network:
            speeds = await measure_speeds(network, arms, distances, _N_ROUNDS)
            found = speed_figures(speeds, distances, arms)
            for name in set(_LARGE_ARMS) - {"plain", "naive"}:
                await network.stop_backbone(name)  # it would take part of a core
            pair = network.backbones["plain"], network.backbones["naive"]
            return found + await overlap(network, pair, _one_chunk(), _OVERLAP_ROUNDS)


async def _streams(halves: Halves) -> list[Figure]:
    group = _workers(halves, 1, "edge-1", "edge-2", "edge-3")
    async with wan_network(halves, [group]) as network:
        plain = await network.start_backbone("plain", _arms("plain")[0].setting)
        found = await streams(network, plain, openings(), _N_ROUNDS)
        found += await long_prompt(network, plain, "pocket", _long(), _N_ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        halves = _halves(write_moe(Path(folder) / "wide.gguf", _WIDE))
        group = _workers(halves, 1, "edge-1", "edge-2", "edge-3")
        async with wan_network(halves, [group]) as network:
            plain = await network.start_backbone("plain", _arms("plain")[0].setting)
            return found + await long_prompt(network, plain, "wide", _long(), _N_ROUNDS)


async def _faults(halves: Halves) -> list[Figure]:
    calm = _workers(halves, 2, "edge-1", "edge-2", "edge-3")
    async with wan_network(halves, [calm, _workers(halves, 2, "edge-4")]) as network:
        setting = replace(_arms("plain")[0].setting, even_load=True)
        hedged = await network.start_backbone("hedged", setting)
        bare = await network.start_backbone("bare", replace(setting, hedge=False))
        network.links[0].change(distance(0.0017))
        network.links[1].change(STALLING)
        asked = novel(4, 64).requests
        found = await hedging((hedged, bare), asked, _N_ROUNDS)
        network.change(distance(0.0017))
        return found + await Killing(network=network, backbone=hedged).run(_N_KILLS)


PARTS: Mapping[str, Callable[[Halves], Awaitable[list[Figure]]]] = {
    "speeds": _speeds,
    "trips": _trips,
    "workloads": _workloads,
    "large": _large,
    "streams": _streams,
    "faults": _faults,
}


def run() -> list[Figure]:
    """Measure all parts, or those that BENCH_WAN names; some 40 minutes for all."""
    halves = _halves(POCKET)
    found: list[Figure] = merging_figures()
    for name in os.environ.get("BENCH_WAN", ",".join(PARTS)).split(","):
        print(f"    {name}: since {time.strftime('%H:%M:%S')}", file=sys.stderr)
        own = trio.run(PARTS[name], halves)
        _tell(own)
        found += own
    return found


def _tell(figures: Sequence[Figure]) -> None:
    """Show a part's figures as it ends: another part may fail, much later."""
    for each in figures:
        spread = f"{each.ours:.3g} ({each.minimum:.3g} to {each.maximum:.3g})"
        print(f"        {each.name}: {spread} {each.unit}", file=sys.stderr)


def notes() -> list[str]:
    """Say what could not be measured."""
    return [] if is_built() else [HOW_TO_BUILD]
