"""Puts the network side together over an open node: one function, no decisions.

The node may be real or a test's; market and ledger come from the network's descriptor,
or the join is refused with a clear line.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import SystemRandom

from ledger.spool import Spool
from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST
from mobile_worker.clock import Clock
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.events import PathKind
from mobile_worker.links.node import Node
from mobile_worker.messages import MAX_ROWS, PROTOCOL_VERSION, Hello
from mobile_worker.serve.canary import CanaryDesk, CanaryModel, CanaryParts
from mobile_worker.session.descriptor import Services
from mobile_worker.shards.manifest import Manifest, manifest_hash
from p2pmoe.backbone.arbiter import Arbiter, ArbiterParts
from p2pmoe.backbone.audit_reports import AuditReports
from p2pmoe.backbone.bookkeeper import Bookkeeper, BookkeeperParts
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.dispatcher import Dispatcher, DispatcherParts, SpotChecks
from p2pmoe.backbone.fleet import Fleet
from p2pmoe.backbone.journal import Journal
from p2pmoe.backbone.last_placement import LastPlacement
from p2pmoe.backbone.local_side import LocalSide
from p2pmoe.backbone.market_client import MarketClient, MarketTerms
from p2pmoe.backbone.network_side import NetworkSide, NetworkSideParts
from p2pmoe.backbone.prefetch.fetching import Fetcher, FetcherParts
from p2pmoe.backbone.served_rows import ServedRows, default_bytes
from p2pmoe.backbone.servings import Means
from p2pmoe.backbone.settlement import Settlement, SettlementTerms
from p2pmoe.backbone.shard_reader import ShardReader
from p2pmoe.backbone.who_holds import WhoHolds
from p2pmoe.backbone.without_market import WithoutMarket
from p2pmoe.config import DiskPolicy, Tuning
from p2pmoe.errors import ConfigurationError
from p2pmoe.market.deployments import sign_manifest
from p2pmoe.weights.errors import ModelFileError
from relay.keys import PeerId

__all__ = ["Joined", "Joining", "join"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What is needed to join: the node, our signature, the model and where to spool."""

    node: Node
    sign: Callable[[bytes], bytes]
    clock: Clock
    local: LocalSide
    manifest: Manifest
    spool: Spool
    counters: BackboneCounters
    tuning: Tuning
    on_coverage: Callable[[], None]
    disputes: Path | None = None  # where rows of wrong servings are kept
    last_placement: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The network side and the parts that others look into."""

    side: NetworkSide
    fleet: Fleet
    dispatcher: Dispatcher
    arbiter: Arbiter
    settlement: Settlement
    bookkeeper: Bookkeeper
    fetcher: Fetcher


def join(joining: Joining) -> Joined:
    """Build the network side; it does nothing until it is run.

    Raises:
        ConfigurationError: the network has no market or no ledger.
    """
    services = _services(joining.node)
    fleet = Fleet()
    sides: list[NetworkSide] = []

    def on_means(peer: PeerId, means: Means) -> None:
        if fleet.set_means(peer, means) and means is Means.ROOM and sides:
            sides[0].wake()

    name = manifest_hash(joining.manifest)
    terms = SettlementTerms(
        network=services.network,
        manifest_hash=name,
        profile=int(joining.local.options.profile),
        backbone=joining.node.peer_id,
    )
    settlement = Settlement(terms, joining.clock.wall_us, on_means)
    arbiter = _arbiter(joining, fleet)
    reports = AuditReports()
    dispatcher = _dispatcher(joining, fleet, settlement, arbiter, reports)
    bookkeeper = _bookkeeper(joining, services, settlement)
    fetcher = _fetcher(joining)
    last, without = _without_market(joining, name)
    side = NetworkSide(
        NetworkSideParts(
            node=joining.node,
            clock=joining.clock,
            market=services.market,
            ledger=services.ledger,
            hello=_hello(name, joining.local),
            fleet=fleet,
            dispatcher=dispatcher,
            settlement=settlement,
            bookkeeper=bookkeeper,
            market_client=_market_client(joining, name),
            shards=ShardReader(joining.local.model_file, joining.manifest, name),
            who_holds=_who_holds(joining, fleet, without),
            without_market=without,
            last_placement=last,
            fetcher=fetcher,
            canaries=_canaries(joining, services, name),
            reports=reports,
            on_coverage=joining.on_coverage,
        )
    )
    sides.append(side)
    return Joined(
        side=side,
        arbiter=arbiter,
        fleet=fleet,
        dispatcher=dispatcher,
        settlement=settlement,
        bookkeeper=bookkeeper,
        fetcher=fetcher,
    )


def _services(node: Node) -> Services:
    services = node.descriptor.services if node.descriptor else None
    if services is None:
        raise ConfigurationError(
            "this network names no market or no ledger",
            advice="start the relay with its embedded services, or name them to it",
        )
    return services


def _hello(name: bytes, local: LocalSide) -> Hello:
    return Hello(
        versions=(PROTOCOL_VERSION,),
        manifest_hash=name,
        profile=int(local.options.profile),
        self_test=SELF_TEST_DIGEST,
        max_rows=MAX_ROWS,
        tab=b"",
        ack=False,
    )


def _arbiter(joining: Joining, fleet: Fleet) -> Arbiter:
    local = joining.local

    def compute(expert: ExpertId, rows: ExpertInput) -> bytes:
        call = KernelCall(weights=local.disk.load(expert), rows=None)
        return local.kernel.experts([call], rows, local.options.profile)[0]

    return Arbiter(
        ArbiterParts(
            compute=compute,
            fleet=fleet,
            clock=joining.clock.monotonic,
            folder=joining.disputes,
            checks=_checks(joining),
        )
    )


def _canaries(joining: Joining, services: Services, name: bytes) -> CanaryDesk:
    """Return what gives this backbone's own word on experts of its model."""
    local = joining.local

    def weights(expert: ExpertId) -> ExpertWeights | None:
        try:
            return local.disk.load(expert)
        except ModelFileError:  # it is not here, or the file was cut short
            return None

    model = CanaryModel(n_embd=joining.manifest.n_embd, weights=weights)
    return CanaryDesk(
        CanaryParts(
            kernel=local.kernel,
            find=lambda wanted: model if wanted == name else None,
            send=lambda answer: joining.node.send(services.market, answer),
            clock=joining.clock,
        )
    )


def _checks(joining: Joining) -> SpotChecks:
    tuning = joining.tuning
    return SpotChecks(
        settled_rate=tuning.settled_spot_check_rate,
        settled_passes=tuning.settled_passes,
        rate=tuning.spot_check_rate,
        newcomer_rate=tuning.newcomer_spot_check_rate,
        newcomer_passes=tuning.newcomer_passes,
        first_passes=tuning.first_passes,
    )


def _dispatcher(
    joining: Joining,
    fleet: Fleet,
    settlement: Settlement,
    arbiter: Arbiter,
    reports: AuditReports,
) -> Dispatcher:
    return Dispatcher(
        DispatcherParts(
            send=joining.node.send,
            fleet=fleet,
            accounts=settlement,
            counters=joining.counters,
            clock=joining.clock.monotonic,
            random=SystemRandom(),  # nobody can tell what will be checked
            checks=_checks(joining),
            on_dispute=arbiter.take,
            hedging=joining.tuning.hedging,
            reports=reports,
        )
    )


def _fetcher(joining: Joining) -> Fetcher:
    node = joining.node
    return Fetcher(
        FetcherParts(
            send=node.send,
            is_relayed=lambda peer: node.path(peer) is PathKind.RELAY,
            entries={entry.expert: entry for entry in joining.manifest.experts},
            clock=joining.clock.monotonic,
            random=SystemRandom(),
        )
    )


def _bookkeeper(
    joining: Joining, services: Services, settlement: Settlement
) -> Bookkeeper:
    return Bookkeeper(
        BookkeeperParts(
            send=joining.node.send,
            settlement=settlement,
            journal=Journal(joining.spool, joining.node.peer_id),
            sign=joining.sign,
            clock=joining.clock,
            market=services.market,
            ledger=services.ledger,
            interval_s=joining.tuning.accept_interval_s,
            served_rows=_served_rows(joining),
        )
    )


def _served_rows(joining: Joining) -> ServedRows:
    n_bytes = joining.tuning.audit_bytes
    ram_bytes = joining.local.options.ram_bytes
    return ServedRows(default_bytes(ram_bytes) if n_bytes is None else n_bytes)


def _without_market(
    joining: Joining, name: bytes
) -> tuple[LastPlacement, WithoutMarket]:
    last = LastPlacement(joining.last_placement, name)
    clock = joining.clock.monotonic
    return last, WithoutMarket(SELF_TEST_DIGEST, clock, last=last.placement)


def _who_holds(joining: Joining, fleet: Fleet, without: WithoutMarket) -> WhoHolds:
    return WhoHolds(joining.manifest, fleet, joining.node.record_of, without.told)


def _market_client(joining: Joining, name: bytes) -> MarketClient:
    encoded = joining.manifest.encode()
    return MarketClient(
        MarketTerms(
            manifest=encoded,
            manifest_hash=name,
            experts=joining.local.all_experts(),
            signature=sign_manifest(encoded, joining.sign),
            record=lambda: joining.node.record.encoded,
            has_disk=joining.local.options.policy is not DiskPolicy.OFF,
            demand_interval_s=joining.tuning.demand_interval_s,
            n_chosen=joining.local.model.description.top_k,
        ),
        use=joining.local.use.take_since,
        at_hand=joining.local.hot.at_hand,
    )
