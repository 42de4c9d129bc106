"""Puts a worker together: which part knows which. Nothing runs here and nothing waits.

node --- contributor --- market side --- leases --- gatherer --- store, desk
                    +-- serve loop --- held experts, kernel
                    +-- accounts --- settling --- spool
"""

from dataclasses import dataclass

from ledger.spool import Spool
from mobile_worker import messages
from mobile_worker.clock import Clock
from mobile_worker.contribute.contributor import Contributor, ContributorParts
from mobile_worker.contribute.figures import FigureParts, Figures
from mobile_worker.contribute.gathering import Gatherer, GatherParts
from mobile_worker.contribute.leases import LeaseBook
from mobile_worker.contribute.market_side import MarketParts, MarketSide
from mobile_worker.contribute.proving import ProvenKernel
from mobile_worker.contribute.relief import MemoryRelief, ReliefParts, major_faults
from mobile_worker.contribute.settings import ContributeSettings
from mobile_worker.contribute.shard_service import ShardService
from mobile_worker.links.node import Node
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
    sources: ModelSources | None = None

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
    market_side = MarketSide(
        MarketParts(
            node=node,
            market=services.market,
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
            market=services.market,
            give_back=market_side.give_back,
            settings=base.fetch,
            sources=base.sources,
        )
    )
    market_side.on_leases = gatherer.leases_changed
    server = _server(base, _finder(accounts, held))
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
            market=services.market,
            self_test=base.proven.self_test,
            clock=clock,
            leases=leases,
            desk=desk,
            shards=ShardService(node, held=held.shard, stored=base.store.read_range),
            accounts=accounts,
            settling=settling,
            market_side=market_side,
            gatherer=gatherer,
            server=server,
            figures=base.figures,
            relief=_relief(base, leases, held, market_side),
        )
    )


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
