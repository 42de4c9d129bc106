"""A network for one check: relay, market, ledger and N workers as processes.

    start      the relay, then the workers, each with room for its share of the experts
    join       the backbone in this process, as a member like any other
    cover      until every expert has a worker
    produce    the reference's prompt, greedy ids included
    stop       all processes, whatever happened

Everything is on loopback and below one folder that the caller removes. A worker that
dies is survived where the others can take its experts; if not, it is named.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import trio

from ledger.spool import Spool
from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST
from mobile_worker.clock import Clock
from mobile_worker.links import NodeSettings, open_node
from mobile_worker.session.identity import Identity
from mobile_worker.shards.manifest import Manifest
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.check.comparison import Produced
from p2pmoe.check.reference import Reference
from p2pmoe.check.scattered_run import (
    ScatteredCheck,
    ScatteredParts,
    ScatteredRun,
    open_scattered,
)
from p2pmoe.errors import ExpertsUnavailable
from p2pmoe.local_network.network import (
    START_WITHIN_S,
    RelayProcess,
    WorkerOptions,
    start_relay,
    start_worker,
)
from p2pmoe.local_network.processes import Child, ChildFailed, Stage
from p2pmoe.network.invite import read_invite
from relay.keys import PeerId, peer_id_from_hex
from relay.tokens import Role

__all__ = [
    "NetworkAnswer",
    "NetworkQuestion",
    "Scattering",
    "TellStep",
    "run_over_workers",
    "watch",
    "worker_bytes",
]

COVER_WITHIN_S = 600.0
FAIL_OVER_WITHIN_S = 15.0
STOP_WITHIN_S = 1.0  # nobody is owed anything once the network is gone
OPENING_CREDIT = 10**6  # more than any reference costs
_LEAST_BYTES = 16 << 20  # below it a worker has no room to compute
_SLACK = 1.5  # experts differ in size, and some kernels keep a quarter for themselves
_POLL_S = 0.1
_NOTICED_AFTER_S = 1.0  # the relay tells at once that a link is gone

TellStep = Callable[[str, float], None]  # what is done, and its share, 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkQuestion:
    """What to run, and over how many workers.

    `local` is the model without an expert at hand, its disk policy OFF.
    """

    local: LocalSide
    manifest: Manifest
    reference: Reference
    n_workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scattering:
    """Who computed the routed experts of a run: calls by worker's name, and here."""

    calls: Mapping[str, int]
    n_calls_here: int
    n_failovers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkAnswer:
    """What came out of the run, and who computed it."""

    produced: Produced
    scattering: Scattering


def worker_bytes(local: LocalSide, n_workers: int) -> int:
    """Return the memory that each of `n_workers` needs to hold its share."""
    sizes = local.hot.sizes.values()
    share = sum(sizes) / n_workers
    return max(_LEAST_BYTES, int(_SLACK * (share + max(sizes, default=0))))


async def run_over_workers(
    folder: Path, question: NetworkQuestion, clock: Clock, tell: TellStep
) -> NetworkAnswer:
    """Run a reference over workers of its own.

    Raises:
        ChildFailed: a process ended, was not ready in time, or a worker died whose
            experts nobody else took.
        ExpertsUnavailable: the experts were not covered in time.
        P2pmoeError, ArithmeticRefused: as the model does.
    """
    stage = Stage(folder)
    try:
        tell("relay, market and ledger", 0.0)
        relay = await start_relay(stage, opening_credit=OPENING_CREDIT)
        tell(f"{question.n_workers} workers", 0.0)
        workers = await _start_workers(stage, relay.invite, question)
        run = await _run(stage, relay, question, clock, tell)
    except Exception as error:
        # Whatever failed first: without the relay all does.
        if stage.children and not stage.children[0].is_running:
            raise ChildFailed(stage.children[0].ending()) from error
        raise
    finally:
        await stage.stop_all(STOP_WITHIN_S)
    return NetworkAnswer(
        produced=run.produced,
        scattering=Scattering(
            calls={name: run.calls.get(peer, 0) for peer, name in workers.items()},
            n_calls_here=run.n_calls_here,
            n_failovers=run.n_failovers,
        ),
    )


async def _start_workers(
    stage: Stage, invite: str, question: NetworkQuestion
) -> dict[PeerId, str]:
    """Start the workers; return their names by peer id."""
    n_bytes = str(worker_bytes(question.local, question.n_workers))
    options = WorkerOptions(memory=n_bytes, disk=n_bytes)
    children = [
        await start_worker(stage, f"worker-{n + 1}", invite, options)
        for n in range(question.n_workers)
    ]
    names = {}
    for child in children:
        report = await child.ready(START_WITHIN_S)
        names[peer_id_from_hex(str(report["peer_id"]))] = child.name
    return names


async def _run(
    stage: Stage,
    relay: RelayProcess,
    question: NetworkQuestion,
    clock: Clock,
    tell: TellStep,
) -> ScatteredRun:
    invite = read_invite(Path(relay.invite))
    identity = Identity.generate()
    settings = NodeSettings(
        identity=identity,
        role=Role.BACKBONE,
        endpoints=invite.relays,
        token=invite.token,
        self_test=SELF_TEST_DIGEST,
        network=invite.network,
    )
    with Spool(stage.folder / "spool") as spool:
        async with open_node(settings, clock=clock) as node:
            parts = ScatteredParts(
                node=node,
                sign=identity.sign,
                clock=clock,
                local=question.local,
                manifest=question.manifest,
                spool=spool,
            )
            async with (
                open_scattered(parts) as check,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(watch, stage, relay.child, check)
                await check.cover(
                    COVER_WITHIN_S,
                    lambda share: tell("experts to workers", share),
                    n_workers=question.n_workers,
                )
                run = await check.produce(
                    question.reference, lambda share: tell("scattered run", share)
                )
                nursery.cancel_scope.cancel()
    return run


async def watch(stage: Stage, relay: Child, check: ScatteredCheck) -> None:
    """Fail as soon as a process is gone that cannot be done without; ChildFailed."""
    lost: set[str] = set()
    while True:
        for child in stage.children:
            if child.is_running or child.name in lost:
                continue
            lost.add(child.name)
            if child is relay:
                raise ChildFailed(child.ending())
            if not await _survived(check):
                raise ChildFailed(
                    f"{child.ending()}; no other has room for its experts"
                )
        await trio.sleep(_POLL_S)


async def _survived(check: ScatteredCheck) -> bool:
    """Say whether others take a dead worker's experts in time."""
    await trio.sleep(_NOTICED_AFTER_S)
    try:
        await check.cover(FAIL_OVER_WITHIN_S)
    except ExpertsUnavailable:
        return False
    return True
