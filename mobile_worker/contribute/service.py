"""One worker from its key to its last voucher.

    key and lock -> folders -> kernel, tested -> relay -> offer -> ... -> drain

`contribute` runs until `stop` is set, then drains and returns, or until something ends
it that cannot be made good here: then it raises one error of `mobile_worker.errors`,
`ledger.errors` or `relay.errors`, made for people.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import trio

from ledger.spool import Spool
from mobile_worker.clock import Clock, SystemClock
from mobile_worker.contribute.assembly import Base, assemble
from mobile_worker.contribute.controls import BY_ITS_USER, Controls
from mobile_worker.contribute.errors import NetworkUnfit
from mobile_worker.contribute.figures import Figures, Report
from mobile_worker.contribute.outcome import only_error
from mobile_worker.contribute.proving import ProvenKernel, prove_kernel
from mobile_worker.contribute.settings import ContributeSettings
from mobile_worker.contribute.trimming import give_back_memory, let_go_of_library
from mobile_worker.governor.governor import Governor, GovernorParts
from mobile_worker.governor.remembered import Remembered
from mobile_worker.governor.sensors import NoSensors, Sensors
from mobile_worker.links.node import Node, NodeSettings
from mobile_worker.links.open_node import open_node
from mobile_worker.servings.own_copy import OwnCopy
from mobile_worker.session.descriptor import NetworkDescriptor, Services
from mobile_worker.session.identity import Identity, load_or_create
from mobile_worker.shards.fetch import FetchSettings
from mobile_worker.shards.http_fetch import ModelSources
from mobile_worker.shards.relay_blobs import RelayBlobs
from mobile_worker.shards.store import ShardStore
from relay.endpoint import is_loopback
from relay.keys import PeerId

__all__ = ["Hooks", "Started", "contribute", "relays_of"]

log = logging.getLogger("p2pmoe.contribute")

OpenNode = Callable[[NodeSettings], AbstractAsyncContextManager[Node]]
OpenRelays = Callable[[ContributeSettings], AbstractAsyncContextManager[RelayBlobs]]


def relays_of(settings: ContributeSettings) -> RelayBlobs:
    """Return the shards of the relays that the settings name."""
    return RelayBlobs((settings.endpoint, *settings.further))


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What a worker is once it has joined; `kernel` is the name of its kernel."""

    peer_id: PeerId
    kernel: str
    direct_addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What a worker is run with, in place of the real things in tests.

    prove: returns the kernel. report: told of states and figures. started: told once
    when it has joined. sensors: of this machine, for the governor. open_relays: the
    relays that are asked for shards. beside: runs beside the worker while it holds its
    key, and is cancelled at the end.
    """

    open_node: OpenNode = open_node
    prove: Callable[[ContributeSettings], ProvenKernel] = prove_kernel
    clock: Clock = field(default_factory=SystemClock)
    report: Report = lambda _status, _facts: None
    started: Callable[[Started], None] = lambda _: None
    fetch: FetchSettings = field(default_factory=FetchSettings)
    sensors: Callable[[Clock], Sensors] = lambda _: NoSensors()
    open_relays: OpenRelays = relays_of
    beside: Callable[[Controls], Awaitable[None]] | None = None


async def contribute(
    settings: ContributeSettings, stop: trio.Event, hooks: Hooks | None = None
) -> bool:
    """Work until `stop` is set; True if everything accepted was signed and filed.

    Raises:
        IdentityInUse, IdentityError: the key file.
        StoreUnusable, StoreUnavailable, SpoolCorrupt: the data folder.
        KernelUnavailable, ArithmeticDiffers: the kernel and its self-test.
        RelayError, ListenError, NetworkUnfit: joining.
        MarketRefused: the market does not take this worker.
    """
    hooks = hooks or Hooks()
    figures = Figures(hooks.report)
    governor = _governor(settings, hooks)
    settled = True
    with only_error():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_start, stop, figures, nursery.cancel_scope)
            controls = Controls(
                figures=figures,
                governor=governor,
                clock=hooks.clock,
                stop=stop,
                end=nursery.cancel_scope.cancel,
            )
            try:
                settled = await _start(settings, hooks, controls, governor)
            finally:
                governor.save()
            nursery.cancel_scope.cancel()
    return settled


def _governor(settings: ContributeSettings, hooks: Hooks) -> Governor:
    return Governor(
        GovernorParts(
            clock=hooks.clock,
            limits=settings.limits,
            limits_file=settings.limits_file,
            record=Remembered(settings.record_file),
            sensors=hooks.sensors(hooks.clock),
            n_cpus=settings.n_threads,
            is_hub=settings.hub,
        )
    )


async def _end_start(
    stop: trio.Event, figures: Figures, scope: trio.CancelScope
) -> None:
    """End at once if it is to stop before it has joined: there is nothing to drain."""
    await stop.wait()
    if not figures.facts.joined:
        scope.cancel()


async def _start(
    settings: ContributeSettings, hooks: Hooks, controls: Controls, governor: Governor
) -> bool:
    """Work as the one process with this key, with what runs beside."""
    controls.figures.update(hooks.clock.monotonic())
    identity = load_or_create(settings.identity_file)
    controls.peer_id = identity.peer_id
    settled = True
    try:
        async with trio.open_nursery() as nursery:
            if hooks.beside is not None:
                nursery.start_soon(hooks.beside, controls)
            settled = await _join(settings, hooks, controls, governor, identity)
            nursery.cancel_scope.cancel()
    finally:
        identity.release()
    return settled


async def _join(
    settings: ContributeSettings,
    hooks: Hooks,
    controls: Controls,
    governor: Governor,
    identity: Identity,
) -> bool:
    clock, figures = hooks.clock, controls.figures
    figures.doing("reading its shards", clock.monotonic())
    store = await trio.to_thread.run_sync(_open_store, settings)
    controls.store = store
    figures.doing("testing its arithmetic", clock.monotonic())
    proven = await trio.to_thread.run_sync(hooks.prove, settings)
    give_back_memory()  # of testing it
    let_go_of_library("wasmtime")  # whose compiler has done its work
    for warning in proven.warnings:
        log.warning("%s", warning)
    figures.facts.kernel = proven.kernel.name
    figures.doing("joining the network", clock.monotonic())
    node_settings = _node_settings(settings, identity, proven.self_test)
    # A manifest is a stranger's: our own services are asked only by our own relay.
    is_here = is_loopback(settings.endpoint.host)
    with Spool(settings.spool_folder) as spool:
        async with (
            ModelSources(loopback=is_here) as sources,
            hooks.open_relays(settings) as relays,
            hooks.open_node(node_settings) as node,
        ):
            base = Base(
                settings=settings,
                identity=identity,
                clock=clock,
                fetch=hooks.fetch,
                store=store,
                spool=spool,
                receipts=OwnCopy(settings.receipt_folder),
                proven=proven,
                node=node,
                figures=figures,
                governor=governor,
                sources=sources,
                relays=relays,
            )
            return await _work(base, hooks, controls)


async def _work(base: Base, hooks: Hooks, controls: Controls) -> bool:
    contributor = assemble(base, _services_of(base.node.descriptor))
    controls.look = contributor.look
    facts = base.figures.facts
    facts.joined = facts.relay_is_up = True
    record = base.node.record
    hooks.started(
        Started(
            peer_id=record.peer_id,
            kernel=facts.kernel,
            direct_addresses=record.direct_addresses,
        )
    )
    settled = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(contributor.run)
        await controls.stop.wait()
        settled = await contributor.drain(BY_ITS_USER, within_s=base.settings.drain_s)
        await trio.sleep(0.1)  # let the last messages out
        nursery.cancel_scope.cancel()
    return settled


def _services_of(descriptor: NetworkDescriptor | None) -> Services:
    services = descriptor.services if descriptor else None
    if services is None:
        raise NetworkUnfit(
            "the relay names no market and ledger to work for",
            advice="use the URL or the invite of a network",
        )
    return services


def _open_store(settings: ContributeSettings) -> ShardStore:
    return ShardStore(settings.shard_folder, max_bytes=settings.disk_bytes)


def _node_settings(
    settings: ContributeSettings, identity: Identity, self_test: bytes
) -> NodeSettings:
    return NodeSettings(
        identity=identity,
        role=settings.role,
        endpoints=(settings.endpoint, *settings.further),
        token=settings.token,
        listen=settings.listen,
        advertise=settings.advertise,
        self_test=self_test,
        network=settings.network,
        lan=settings.lan,
    )
