"""Puts a worker together: which part knows which. Nothing runs here and nothing waits.

node --- contributor --- market side --- leases --- gatherer --- store, desk
                    +-- serve loop --- held experts, kernel
                    +-- accounts --- settling --- spool
"""

from collections.abc import Callable
from dataclasses import dataclass

from ledger.spool import Spool
from mobile_worker import messages
from mobile_worker.clock import Clock
from mobile_worker.contribute.contributor import Contributor, ContributorParts
from mobile_worker.contribute.fallback import Fallback, FallbackParts
from mobile_worker.contribute.figures import FigureParts, Figures
from mobile_worker.contribute.gathering import Gatherer, GatherParts
from mobile_worker.contribute.last_leases import LastLeases
from mobile_worker.contribute.leases import LeaseBook
from mobile_worker.contribute.machine import this_machine
from mobile_worker.contribute.market_side import MarketParts, MarketSide
from mobile_worker.contribute.pausing import Pausing, PausingParts, Working
from mobile_worker.contribute.proving import ProvenKernel
from mobile_worker.contribute.relief import MemoryRelief, ReliefParts, major_faults
from mobile_worker.contribute.settings import ContributeSettings
from mobile_worker.contribute.shard_finding import FinderParts, ShardFinder
from mobile_worker.contribute.shard_service import ShardService
from mobile_worker.governor.governor import Governor
from mobile_worker.governor.presets import memory_of
from mobile_worker.links.node import Node
from mobile_worker.links.service_watch import ServiceWatch
from mobile_worker.serve.canary import CanaryDesk, CanaryModel, CanaryParts
from mobile_worker.serve.held import HeldExperts, HeldModel
from mobile_worker.serve.server import ExpertServer, Find, ServeSettings
from mobile_worker.servings.accounts import Accounts
from mobile_worker.servings.grants import GrantReader
from mobile_worker.servings.own_copy import OwnCopy
from mobile_worker.servings.settling import Settling
from mobile_worker.servings.tab import Tab
from mobile_worker.session.descriptor import Services
from mobile_worker.session.identity import Identity
from mobile_worker.shards.desk import BlobDesk
from mobile_worker.shards.fetch import FetchSettings
from mobile_worker.shards.http_fetch import ModelSources
from mobile_worker.shards.relay_blobs import RelayBlobs
from mobile_worker.shards.store import ShardStore
from relay.keys import PeerId

__all__ = ["Base", "assemble"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """Everything that exists before the parts of a worker are put together."""

    settings: ContributeSettings
    identity: Identity
    clock: Clock
    fetch: FetchSettings
    store: ShardStore
    spool: Spool
    receipts: OwnCopy
    proven: ProvenKernel
    node: Node
    figures: Figures
    governor: Governor
    sources: ModelSources | None = None
    relays: RelayBlobs | None = None

    @property
    def expert_bytes(self) -> int:
        """Bytes of experts that fit into memory: what is offered."""
        return self.settings.memory_bytes - self.proven.kernel.decoded_bytes


def assemble(base: Base, services: Services) -> Contributor:
    """Return a worker that is ready to run."""
    node, clock = base.node, base.clock
    leases, held = LeaseBook(), HeldExperts(base.expert_bytes)
    desk = BlobDesk(node.send)
    accounts, settling = _accounts(base, services)
    last, watch = LastLeases(base.settings.last_leases), ServiceWatch()
    parts = MarketParts(
        node=node,
        market=services.market,
        offer=_offer(base),
        clock=clock,
        leases=leases,
        accounts=accounts,
        last=last,
        watch=watch,
    )
    market_side = MarketSide(parts)
    gatherer = _gatherer(base, held, desk, parts, market_side)
    fallback = _fallback(base, desk, parts, market_side, gatherer)
    market_side.on_leases, market_side.fallback = gatherer.leases_changed, fallback
    server = _server(base, _finder(accounts, held))
    working = Working(
        held=held,
        gatherer=gatherer,
        shards=ShardService(node, held=held.shard, stored=base.store.read_range),
        server=server,
        relief=_relief(base, leases, held, market_side),
    )
    canaries = _canaries(base, services.market, held, server)
    market_side.on_canary = canaries.asked
    _connect_figures(base, leases, accounts, settling, market_side, working)
    return Contributor(
        ContributorParts(
            node=node,
            market=services.market,
            self_test=base.proven.self_test,
            clock=clock,
            leases=leases,
            desk=desk,
            shards=working.shards,
            accounts=accounts,
            settling=settling,
            market_side=market_side,
            gatherer=gatherer,
            server=server,
            figures=base.figures,
            relief=working.relief,
            governor=base.governor,
            pausing=_pausing(base, leases, accounts, market_side, working),
            fallback=fallback,
            last_leases=last,
            canaries=canaries,
        )
    )


def _canaries(
    base: Base, market: PeerId, held: HeldExperts, server: ExpertServer
) -> CanaryDesk:
    def find(manifest_hash: bytes) -> CanaryModel | None:
        model = held.model(manifest_hash)
        if model is None:
            return None
        return CanaryModel(n_embd=model.manifest.n_embd, weights=model.weights.get)

    return CanaryDesk(
        CanaryParts(
            kernel=base.proven.kernel,
            find=find,
            send=lambda answer: base.node.send(market, answer),
            clock=base.clock,
            idle=server.idle,
            refusal=lambda: server.paused,
        )
    )


def _gatherer(
    base: Base,
    held: HeldExperts,
    desk: BlobDesk,
    parts: MarketParts,
    market_side: MarketSide,
) -> Gatherer:
    return Gatherer(
        GatherParts(
            store=base.store,
            held=held,
            leases=parts.leases,
            desk=desk,
            market=parts.market,
            give_back=market_side.give_back,
            settings=base.fetch,
            finder=_finder_of_shards(base, desk),
            watch=parts.watch,
        )
    )


def _fallback(
    base: Base,
    desk: BlobDesk,
    parts: MarketParts,
    market_side: MarketSide,
    gatherer: Gatherer,
) -> Fallback:
    return Fallback(
        FallbackParts(
            node=base.node,
            desk=desk,
            clock=base.clock,
            watch=parts.watch,
            leases=parts.leases,
            last=parts.last,
            accounts=parts.accounts,
            offer=market_side.offer,
            model=gatherer.model,
            on_leases=gatherer.leases_changed,
            room_bytes=base.expert_bytes,
        )
    )


def _finder_of_shards(base: Base, desk: BlobDesk) -> ShardFinder:
    return ShardFinder(
        FinderParts(
            node=base.node,
            store=base.store,
            desk=desk,
            settings=base.fetch,
            allowance=base.governor,
            sources=base.sources,
            relays=base.relays,
        )
    )


def _connect_figures(
    base: Base,
    leases: LeaseBook,
    accounts: Accounts,
    settling: Settling,
    market_side: MarketSide,
    working: Working,
) -> None:
    base.figures.connect(
        FigureParts(
            leases=leases,
            held=working.held,
            gatherer=working.gatherer,
            server=working.server,
            accounts=accounts,
            settling=settling,
            governor=base.governor,
            market_side=market_side,
            store=base.store,
            max_disk_bytes=base.settings.disk_bytes,
        )
    )


def _pausing(
    base: Base,
    leases: LeaseBook,
    accounts: Accounts,
    market_side: MarketSide,
    working: Working,
) -> Pausing:
    working.server.measured = base.governor.computed
    return Pausing(
        PausingParts(
            governor=base.governor,
            node=base.node,
            kernel=base.proven.kernel,
            self_test=base.proven.self_test,
            leases=leases,
            accounts=accounts,
            market_side=market_side,
            working=working,
            memory_of=_memory_now(base),
        )
    )


def _memory_now(base: Base) -> Callable[[], int]:
    """Return what tells the bytes for experts, as the limits are at the time."""
    physical = this_machine().memory_bytes
    at_first = base.settings.limits

    def memory_now() -> int:
        limits = base.governor.limits
        if (limits.ram_mb, limits.preset) == (at_first.ram_mb, at_first.preset):
            return base.expert_bytes
        decoded = base.proven.kernel.decoded_bytes
        return max(0, memory_of(limits, physical) - decoded)

    return memory_now


def _relief(
    base: Base, leases: LeaseBook, held: HeldExperts, market_side: MarketSide
) -> MemoryRelief:
    return MemoryRelief(
        ReliefParts(
            leases=leases,
            held=held,
            market_side=market_side,
            facts=base.figures.facts,
            n_faults=major_faults,
        )
    )


def _accounts(base: Base, services: Services) -> tuple[Accounts, Settling]:
    reader = GrantReader(
        network=services.network,
        worker=base.identity.peer_id,
        ledger=services.ledger,
        market=services.market,
    )
    accounts = Accounts(reader, base.identity.sign)
    settling = Settling(
        accounts,
        base.spool,
        send=base.node.send,
        ledger=services.ledger,
        clock=base.clock,
        copy=base.receipts,
    )
    return accounts, settling


def _finder(accounts: Accounts, held: HeldExperts) -> Find:
    """Return what tells the serve loop which tab and model a dispatch is about."""

    def find(peer: PeerId, tab_id: bytes) -> tuple[Tab, HeldModel] | None:
        tab = accounts.find(peer, tab_id)
        model = held.model(tab.terms.manifest_hash) if tab is not None else None
        return None if tab is None or model is None else (tab, model)

    return find


def _server(base: Base, find: Find) -> ExpertServer:
    return ExpertServer(
        base.proven.kernel,
        find=find,
        send=base.node.send,
        clock=base.clock,
        settings=ServeSettings(n_threads=base.settings.n_threads),
    )


def _offer(base: Base) -> messages.Offer:
    settings = base.settings
    return messages.Offer(
        record=base.node.record.encoded,
        memory_bytes=base.expert_bytes,
        disk_bytes=settings.disk_bytes,
        rate_macs_s=base.proven.rate_macs_s,
        up_bytes_s=0,  # not measured: nothing has been sent yet
        down_bytes_s=0,
        device_class=int(settings.device_class),
        domain=settings.domain,
        models=(),
    )
