"""One worker from its key to its last voucher.

    key and lock -> folders -> self-test -> rate -> relay -> offer -> ... -> drain

`contribute` runs until `stop` is set, then drains and returns, or until something ends
it that cannot be made good here: then it raises one error of `mobile_worker.errors`,
`ledger.errors` or `relay.errors`, made for people.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import trio

from ledger.spool import Spool
from mobile_worker import messages
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.clock import Clock, SystemClock
from mobile_worker.contribute.contributor import Contributor, ContributorParts
from mobile_worker.contribute.errors import NetworkUnfit
from mobile_worker.contribute.figures import FigureParts, Figures, Report
from mobile_worker.contribute.gathering import Gatherer, GatherParts
from mobile_worker.contribute.leases import LeaseBook
from mobile_worker.contribute.market_side import MarketParts, MarketSide
from mobile_worker.contribute.outcome import only_error
from mobile_worker.contribute.proving import measure_rate, prove_arithmetic
from mobile_worker.contribute.settings import ContributeSettings
from mobile_worker.links.node import Node, NodeSettings
from mobile_worker.links.open_node import open_node
from mobile_worker.serve.held import HeldExperts, HeldModel
from mobile_worker.serve.server import ExpertServer, ServeSettings
from mobile_worker.servings.accounts import Accounts
from mobile_worker.servings.grants import GrantReader
from mobile_worker.servings.settling import Settling
from mobile_worker.servings.tab import Tab
from mobile_worker.session.descriptor import NetworkDescriptor
from mobile_worker.session.identity import Identity, load_or_create
from mobile_worker.shards.desk import BlobDesk
from mobile_worker.shards.fetch import FetchSettings
from mobile_worker.shards.store import ShardStore
from relay.keys import PeerId

__all__ = ["Hooks", "Started", "contribute"]

OpenNode = Callable[[NodeSettings], AbstractAsyncContextManager[Node]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What a worker is once it has joined."""

    peer_id: PeerId
    direct_addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What a worker is run with, in place of the real things in tests.

    report: told of states and figures. started: told once when it has joined.
    """

    open_node: OpenNode = open_node
    kernel: Kernel | None = None
    clock: Clock = field(default_factory=SystemClock)
    report: Report = lambda _status, _facts: None
    started: Callable[[Started], None] = lambda _: None
    fetch: FetchSettings = field(default_factory=FetchSettings)


async def contribute(
    settings: ContributeSettings, stop: trio.Event, hooks: Hooks | None = None
) -> bool:
    """Work until `stop` is set; True if everything accepted was signed and filed.

    Raises:
        IdentityInUse, IdentityError: the key file.
        StoreUnusable, StoreUnavailable, SpoolCorrupt: the data folder.
        ArithmeticDiffers: the self-test.
        RelayError, ListenError, NetworkUnfit: joining.
        MarketRefused: the market does not take this worker.
    """
    hooks = hooks or Hooks()
    figures = Figures(hooks.report)
    settled = True
    with only_error():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_start, stop, figures, nursery.cancel_scope)
            settled = await _start(settings, stop, hooks, figures)
            nursery.cancel_scope.cancel()
    return settled


async def _end_start(
    stop: trio.Event, figures: Figures, scope: trio.CancelScope
) -> None:
    """End at once if it is to stop before it has joined: there is nothing to drain."""
    await stop.wait()
    if not figures.facts.joined:
        scope.cancel()


async def _start(
    settings: ContributeSettings, stop: trio.Event, hooks: Hooks, figures: Figures
) -> bool:
    clock = hooks.clock
    figures.update(clock.monotonic())
    identity = load_or_create(settings.identity_file)
    try:
        figures.doing("reading its shards", clock.monotonic())
        store = await trio.to_thread.run_sync(_open_store, settings)
        kernel = hooks.kernel or NumpyKernel(decoded_cache_bytes=settings.decoded_bytes)
        figures.doing("testing its arithmetic", clock.monotonic())
        self_test = await trio.to_thread.run_sync(prove_arithmetic, kernel)
        rate = await trio.to_thread.run_sync(measure_rate, kernel)
        figures.doing("joining the network", clock.monotonic())
        node_settings = _node_settings(settings, identity, self_test)
        with Spool(settings.spool_folder) as spool:
            async with hooks.open_node(node_settings) as node:
                base = _Base(
                    settings=settings,
                    identity=identity,
                    hooks=hooks,
                    store=store,
                    spool=spool,
                    kernel=kernel,
                    self_test=self_test,
                    rate_macs_s=rate,
                    node=node,
                    figures=figures,
                )
                return await _work(base, stop)
    finally:
        identity.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """Everything that exists before the parts of a worker are put together."""

    settings: ContributeSettings
    identity: Identity
    hooks: Hooks
    store: ShardStore
    spool: Spool
    kernel: Kernel
    self_test: bytes
    rate_macs_s: int
    node: Node
    figures: Figures


async def _work(base: _Base, stop: trio.Event) -> bool:
    contributor = _assemble(base, *_services_of(base.node.descriptor))
    facts = base.figures.facts
    facts.joined = facts.relay_is_up = True
    record = base.node.record
    base.hooks.started(
        Started(peer_id=record.peer_id, direct_addresses=record.direct_addresses)
    )
    settled = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(contributor.run)
        await stop.wait()
        settled = await contributor.drain(
            "stopped by its user", within_s=base.settings.drain_s
        )
        await trio.sleep(0.1)  # let the last messages out
        nursery.cancel_scope.cancel()
    return settled


def _assemble(
    base: _Base, descriptor: NetworkDescriptor, market: PeerId, ledger: PeerId
) -> Contributor:
    settings, node, clock = base.settings, base.node, base.hooks.clock
    reader = GrantReader(
        network=descriptor.network,
        worker=base.identity.peer_id,
        ledger=ledger,
        market=market,
    )
    accounts = Accounts(reader, base.identity.sign)
    settling = Settling(
        accounts, base.spool, send=node.send, ledger=ledger, clock=clock
    )
    leases, held = LeaseBook(), HeldExperts(settings.expert_bytes)
    desk = BlobDesk(node.send)
    market_side = MarketSide(
        MarketParts(
            node=node,
            market=market,
            offer=_offer(base),
            clock=clock,
            leases=leases,
            accounts=accounts,
        )
    )
    gatherer = Gatherer(
        GatherParts(
            store=base.store,
            held=held,
            leases=leases,
            desk=desk,
            market=market,
            give_back=market_side.give_back,
            settings=base.hooks.fetch,
        )
    )
    market_side.on_leases = gatherer.leases_changed

    def find(peer: PeerId, tab_id: bytes) -> tuple[Tab, HeldModel] | None:
        tab = accounts.find(peer, tab_id)
        model = held.model(tab.terms.manifest_hash) if tab is not None else None
        return None if tab is None or model is None else (tab, model)

    server = ExpertServer(
        base.kernel,
        find=find,
        send=node.send,
        clock=clock,
        settings=ServeSettings(n_threads=settings.n_threads),
    )
    base.figures.connect(
        FigureParts(
            leases=leases,
            held=held,
            gatherer=gatherer,
            server=server,
            accounts=accounts,
            settling=settling,
        )
    )
    return Contributor(
        ContributorParts(
            node=node,
            market=market,
            self_test=base.self_test,
            clock=clock,
            leases=leases,
            store=base.store,
            desk=desk,
            accounts=accounts,
            settling=settling,
            market_side=market_side,
            gatherer=gatherer,
            server=server,
            figures=base.figures,
        )
    )


def _offer(base: _Base) -> messages.Offer:
    settings = base.settings
    return messages.Offer(
        record=base.node.record.encoded,
        memory_bytes=settings.expert_bytes,
        disk_bytes=settings.disk_bytes,
        rate_macs_s=base.rate_macs_s,
        up_bytes_s=0,  # not measured: nothing has been sent yet
        down_bytes_s=0,
        device_class=int(settings.device_class),
        domain=settings.domain,
        models=(),
    )


def _services_of(
    descriptor: NetworkDescriptor | None,
) -> tuple[NetworkDescriptor, PeerId, PeerId]:
    if descriptor is None or descriptor.market is None or descriptor.ledger is None:
        raise NetworkUnfit(
            "the relay names no market and ledger to work for",
            advice="use the URL or the invite of a network",
        )
    return descriptor, descriptor.market, descriptor.ledger


def _open_store(settings: ContributeSettings) -> ShardStore:
    return ShardStore(settings.shard_folder, max_bytes=settings.disk_bytes)


def _node_settings(
    settings: ContributeSettings, identity: Identity, self_test: bytes
) -> NodeSettings:
    return NodeSettings(
        identity=identity,
        role=settings.role,
        endpoints=(settings.endpoint,),
        token=settings.token,
        listen=settings.listen,
        advertise=settings.advertise,
        self_test=self_test,
        network=settings.network,
    )
