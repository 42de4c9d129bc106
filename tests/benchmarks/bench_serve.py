"""Serving figures: a layer's crossing, and scattered decoding beside all-local.

The worker is a process of its own over loopback, on a direct link or reached through
the relay, which is a process of its own with TLS. The crossing is measured on the
decode thread: from handing over a layer of 8 KiB until its 8 KiB of rows are there, by
a worker that computes nothing; beside it, as many bytes over a bare socket, which is
what the machine itself takes at that moment. Decoding is the pocket
model with a third of its experts at hand and the rest on the worker, rounds alternating
with all-local ones. Then many streams at a time beside one, all local (stream_rates).
One thread of BLAS.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import trio

from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from mobile_worker.session.records import PeerRecord
from p2pmoe.backbone.exchange import LayerDone, LayerWork
from p2pmoe.backbone.generation import GenerationRequest
from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.backbone.plan import ExpertRows, LayerPlan, Tier, WorkerCalls
from p2pmoe.backbone.scattered import Network
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.weights.model_file import open_model
from relay.endpoint import Endpoint, parse_endpoint
from tests.benchmarks.figures import Figure, figure
from tests.benchmarks.one_core import measured_on_one_core, tell
from tests.benchmarks.serve_processes import bench_backbone, plain_crossing, record_of
from tests.benchmarks.stream_rates import stream_figures
from tests.support.backbone_model import POCKET
from tests.support.lanes import decode_alone

__all__ = ["run"]

_N_EMBD = 2048  # one row of f32 is 8 KiB, and so is its result in R32
_CROSSINGS = 400
_ROUNDS = 5
_TOKENS = 48
_PROMPT = tuple(range(5, 25))
_CROSSING_TARGETS_MS = {"direct": {50: 0.25, 99: 0.6}, "relay": {50: 0.6}}


@contextmanager
def _process(*arguments: str) -> Iterator[str]:
    """Run a process of serve_processes; gives the line it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.serve_processes", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process.stdout.readline().strip()
        process.stdin.close()


def _cross(network: Network, record: PeerRecord, n: int) -> list[float]:
    """Return the milliseconds of n crossings of one row, one expert; in a thread."""
    x = np.ones((1, _N_EMBD), np.float32)
    call = ExpertRows(expert=0, rows=(0,))
    message = WorkerCalls(peer=record.peer_id, tier=Tier.HUB, calls=(call,))
    took = []
    for _ in range(n):
        work = LayerWork(
            plan=LayerPlan(layer=1, remote=(message,)),
            rows=ExpertInput(floats=x),
            n_embd=_N_EMBD,
            profile=Profile.R32,
            deadline=time.monotonic() + 10,
            local_allowed=False,
            trace=StepTrace.of(RequestTrace()),
        )
        start = time.perf_counter()
        network.submit(work)
        reply = work.replies.get()
        took.append((time.perf_counter() - start) * 1000)
        if not isinstance(reply, LayerDone):
            raise reply.error
    return took


def _plain_crossings(port: int) -> list[list[float]]:
    """Return rounds of as many bytes over a bare socket, in milliseconds each."""
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rounds = []
        for _ in range(_ROUNDS):
            took = []
            for _ in range(_CROSSINGS):
                start = time.perf_counter()
                plain_crossing(peer)
                took.append((time.perf_counter() - start) * 1000)
            rounds.append(took)
        return rounds


async def _crossings(record: PeerRecord, relay: Endpoint | None) -> list[list[float]]:
    """Return rounds of crossings, in milliseconds each."""
    async with bench_backbone([record], [{ExpertId(1, 0)}], relay) as network:
        await trio.to_thread.run_sync(_cross, network, record, 50)
        return [
            await trio.to_thread.run_sync(_cross, network, record, _CROSSINGS)
            for _ in range(_ROUNDS)
        ]


def _decode(local: LocalSide, network: Network | None) -> float:
    """Return tokens a second of one greedy generation; in a thread."""
    request = GenerationRequest(
        prompt_ids=_PROMPT,
        sampling=SamplingSettings(temperature=0.0),
        max_tokens=_TOKENS,
    )
    _, trace = decode_alone(local, request, network)
    return (_TOKENS - 1) / trace.decode_s


def _local(hot_share: float) -> LocalSide:
    local = LocalSide(open_model(POCKET), LocalOptions(data=Path(mkdtemp())))
    local.hot.budget_bytes = int(hot_share * sum(local.hot.sizes.values()))
    local.read_base()
    local.hot.fill(local.use.decayed())
    return local


async def _decodes(
    record: PeerRecord, relay: Endpoint | None
) -> tuple[list[float], list[float]]:
    """Return tokens a second of rounds: scattered, and all local."""
    third, whole = _local(1 / 3), _local(1.0)
    away = set(third.all_experts()) - set(third.hot.resident())
    scattered, alone = [], []
    async with bench_backbone([record], [away], relay) as network:
        for _ in range(_ROUNDS + 1):
            alone.append(await trio.to_thread.run_sync(_decode, whole, None))
            scattered.append(await trio.to_thread.run_sync(_decode, third, network))
    return scattered[1:], alone[1:]  # the first warms caches


def _crossing_figures(
    path: str, ours: list[list[float]], plain: list[list[float]]
) -> list[Figure]:
    return [
        figure(
            f"layer crossing, {path}, p{percent}",
            "ms",
            [float(np.percentile(took, percent)) for took in ours],
            baseline=[float(np.percentile(took, percent)) for took in plain],
            at_most=_CROSSING_TARGETS_MS[path].get(percent),
        )
        for percent in (50, 99)
    ]


def _path_figures(
    path: str, relay: Endpoint | None, plain: list[list[float]]
) -> list[Figure]:
    """Measure workers on one path."""
    by = () if relay is None else (str(relay),)
    with _process("echo", *by) as line:
        crossings = trio.run(_crossings, record_of(line), relay)
    with _process("worker", *by) as line:
        scattered, alone = trio.run(_decodes, record_of(line), relay)
    return [
        *_crossing_figures(path, crossings, plain),
        figure(f"decode, scattered, {path}", "tokens/s", scattered, baseline=alone),
    ]


def measure() -> list[Figure]:
    """Measure both paths, and many streams."""
    with _process("plain") as port:
        plain = _plain_crossings(int(port))
    with _process("relay") as line:
        return [
            *_path_figures("direct", None, plain),
            *_path_figures("relay", parse_endpoint(line), plain),
            *stream_figures(_local(1.0)),
        ]


def run() -> list[Figure]:
    """Measure crossing and decoding on both paths, and streams; some 40 seconds."""
    return measured_on_one_core("tests.benchmarks.bench_serve")


if __name__ == "__main__":
    tell(measure())
